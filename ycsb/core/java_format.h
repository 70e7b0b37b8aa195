// Numbers as Java prints them, for output that scripts written for Java YCSB can read.
#ifndef SKUA_YCSB_CORE_JAVA_FORMAT_H_
#define SKUA_YCSB_CORE_JAVA_FORMAT_H_

#include <string>

namespace skua::ycsb {

/// Double.toString without its E-notation: the shortest digits that give the number back, always
/// with a fraction ("8100.0"); "NaN" and "Infinity" as in Java.
[[nodiscard]] std::string java_double(double value);

/// DecimalFormat("#.##"): at most two decimals, no trailing zeros.
[[nodiscard]] std::string java_two_decimals(double value);

/// "50th", "1st", "99.9": how a percentile is named.
[[nodiscard]] std::string java_ordinal(double percentile);

/// "est completion in" text: "2 days 1 hour ", "3 minutes ", "42 seconds ", with a blank at the
/// end and Java's own idea of singular seconds (any single digit). `seconds` may be NaN (0) or
/// infinite (the largest 64-bit number), as in Java.
[[nodiscard]] std::string java_remaining_time(double seconds);

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_JAVA_FORMAT_H_
