#include "ycsb/core/exporter.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "ycsb/core/java_format.h"
#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

class TextExporter final : public Exporter {
 public:
  explicit TextExporter(std::ostream& out) : out_(out) {}
  void write(std::string_view metric, std::string_view measurement, uint64_t value) override {
    out_ << '[' << metric << "], " << measurement << ", " << std::to_string(value) << '\n';
  }
  void write(std::string_view metric, std::string_view measurement, double value) override {
    out_ << '[' << metric << "], " << measurement << ", " << java_double(value) << '\n';
  }
  void write_fact(std::string_view /*metric*/, std::string_view /*name*/, std::string_view /*value*/) override {}
  void close() override { out_.flush(); }

 private:
  std::ostream& out_;
};

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape;
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

class JsonExporter final : public Exporter {
 public:
  JsonExporter(std::ostream& out, bool array) : out_(out), array_(array) {}
  void write(std::string_view metric, std::string_view measurement, uint64_t value) override {
    write_object(metric, measurement, std::to_string(value));
  }
  void write(std::string_view metric, std::string_view measurement, double value) override {
    // JSON has no NaN; Java's library quotes it.
    const std::string text = java_double(value);
    write_object(metric, measurement, std::isfinite(value) ? text : quoted(text));
  }
  void write_fact(std::string_view metric, std::string_view name, std::string_view value) override {
    write_object(metric, name, quoted(value));
  }
  void close() override {
    out_ << (array_ ? (first_ ? "[ ]\n" : " ]\n") : "\n");
    out_.flush();
  }

 private:
  void write_object(std::string_view metric, std::string_view measurement, std::string_view value) {
    if (first_) {
      out_ << (array_ ? "[ " : "");
    } else {
      out_ << (array_ ? ", " : " ");
    }
    first_ = false;
    out_ << "{\n  \"metric\" : " << quoted(metric) << ",\n  \"measurement\" : " << quoted(measurement)
         << ",\n  \"value\" : " << value << "\n}";
  }

  std::ostream& out_;
  const bool array_;
  bool first_ = true;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Exporter>> make_exporter(std::string_view name, std::ostream& out) {
  const std::string_view last = name.substr(name.rfind('.') + 1);  // npos + 1 is 0
  if (last == "text" || last == "TextMeasurementsExporter") return std::make_unique<TextExporter>(out);
  if (last == "json" || last == "JSONMeasurementsExporter") return std::make_unique<JsonExporter>(out, false);
  if (last == "jsonarray" || last == "JSONArrayMeasurementsExporter") return std::make_unique<JsonExporter>(out, true);
  return invalid_argument("exporter=", name, ": must be text, json, jsonarray or one of Java's ",
                          "site.ycsb.measurements.exporter classes of these names");
}

}  // namespace skua::ycsb
