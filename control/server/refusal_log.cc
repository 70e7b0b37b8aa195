#include "control/server/refusal_log.h"

#include "absl/strings/str_cat.h"
#include "control/server/controller_limits.h"

namespace skua::control {

std::optional<std::string> RefusalLog::note(const std::string& source, const std::string& text, TimeNs now) {
  forget_old(now);
  const bool has_own = sources_.contains(source) || sources_.size() < kRefusalSourcesMax;
  Texts& texts = has_own ? sources_[source] : others_;
  if (texts.contains(text) || texts.size() >= kRefusalsPerSource) return std::nullopt;
  texts[text] = now;
  const std::string whom = source.empty() || !has_own ? "" : absl::StrCat(source, ": ");
  const bool is_last = texts.size() == kRefusalsPerSource;
  return absl::StrCat("refused: ", whom, text, is_last ? "; more refusals from there are not logged for a minute" : "");
}

void RefusalLog::forget_old(TimeNs now) {
  const auto is_old = [now](const auto& logged) { return now - logged.second > kRefusalRepeatNs; };
  for (auto& [source, texts] : sources_) std::erase_if(texts, is_old);
  std::erase_if(sources_, [](const auto& source) { return source.second.empty(); });
  std::erase_if(others_, is_old);
}

}  // namespace skua::control
