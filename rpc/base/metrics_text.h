// Metrics as text: Prometheus' format (0.0.4), and OpenMetrics made from it.
//
//   # HELP skua_sessions Sessions of the data path.
//   # TYPE skua_sessions gauge
//   skua_sessions{worker="0"} 12
#ifndef SKUA_RPC_BASE_METRICS_TEXT_H_
#define SKUA_RPC_BASE_METRICS_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace skua {

/// Builds the text. Families must not repeat. Thread: one.
class MetricsText {
 public:
  /// Begins a family: HELP and TYPE. A name that ends with _total is a counter's; another one is a gauge's.
  void family(std::string_view name, std::string_view help);
  /// A sample of the family. `labels`: as `state="live"`, or empty. Values of labels are escaped already.
  void sample(std::string_view labels, uint64_t value);
  /// A family with one sample.
  void single(std::string_view name, std::string_view help, uint64_t value);

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string text_;
};

/// A label's value with what has a meaning in the format escaped.
[[nodiscard]] std::string escaped_label(std::string_view value);

/// `text` in Prometheus' format as OpenMetrics 1.0: counters' families lose the suffix _total, and the text ends with
/// `# EOF`.
[[nodiscard]] std::string to_open_metrics(std::string_view text);

}  // namespace skua

#endif  // SKUA_RPC_BASE_METRICS_TEXT_H_
