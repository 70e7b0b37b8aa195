// What memcached 1.6 says when something is wrong, word for word: clients look at these texts. What the gateway adds of
// its own stands at the end.
#ifndef SKUA_KVSTORE_GATEWAY_MEMCACHED_ERRORS_H_
#define SKUA_KVSTORE_GATEWAY_MEMCACHED_ERRORS_H_

#include <string_view>

namespace skua::kv::gateway::memcached_errors {

inline constexpr std::string_view kUnknown = "ERROR";
inline constexpr std::string_view kBadFormat = "CLIENT_ERROR bad command line format";
inline constexpr std::string_view kBadDelete = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
inline constexpr std::string_view kBadBlock = "CLIENT_ERROR bad data chunk";
inline constexpr std::string_view kTooLarge = "SERVER_ERROR object too large for cache";
inline constexpr std::string_view kBadExpiry = "CLIENT_ERROR invalid exptime argument";
inline constexpr std::string_view kBadDelta = "CLIENT_ERROR invalid numeric delta argument";
inline constexpr std::string_view kNotANumber = "CLIENT_ERROR cannot increment or decrement non-numeric value";
inline constexpr std::string_view kBadKeyCode = "CLIENT_ERROR error decoding key";
inline constexpr std::string_view kTooManyFlags = "CLIENT_ERROR options flags are too long";
inline constexpr std::string_view kTooManySetFlags = "CLIENT_ERROR options flags too long";
inline constexpr std::string_view kDuplicateFlag = "CLIENT_ERROR duplicate flag";
inline constexpr std::string_view kInvalidFlag = "CLIENT_ERROR invalid flag";
inline constexpr std::string_view kInvalidOrDuplicateFlag = "CLIENT_ERROR invalid or duplicate flag";
inline constexpr std::string_view kBadFlagValue = "CLIENT_ERROR bad token in command line format";
inline constexpr std::string_view kLongOpaque = "CLIENT_ERROR opaque token too long";
inline constexpr std::string_view kBadSetMode = "CLIENT_ERROR invalid mode for ms M token";
inline constexpr std::string_view kBadSumMode = "CLIENT_ERROR invalid mode for ma M token";
inline constexpr std::string_view kBadModeLength = "CLIENT_ERROR incorrect length for M token";
inline constexpr std::string_view kNotAuthenticated = "CLIENT_ERROR unauthenticated";
inline constexpr std::string_view kAuthenticationFailed = "CLIENT_ERROR authentication failure";
inline constexpr std::string_view kBadToken = "CLIENT_ERROR bad authentication token format";
inline constexpr std::string_view kNoFlush = "CLIENT_ERROR flush_all not allowed";
inline constexpr std::string_view kTooManyClients = "ERROR Too many open connections\r\n";

// The gateway's own.
inline constexpr std::string_view kLongLine = "CLIENT_ERROR line too long";
inline constexpr std::string_view kNoFlushLater = "SERVER_ERROR flush_all takes no delay";
inline constexpr std::string_view kFlushedInPart = "SERVER_ERROR outcome unknown: not all keys were removed";
inline constexpr std::string_view kReplyTooLarge =
    "SERVER_ERROR the reply would be larger than 64 MiB: ask for fewer keys at a time";
inline constexpr std::string_view kChangesTooOften =
    "SERVER_ERROR others change the key all the time: nothing was written";
inline constexpr std::string_view kNoRight = "SERVER_ERROR no right: the user may not do this with the table";
inline constexpr std::string_view kTooManyAuthenticate =
    "SERVER_ERROR try again: too many clients authenticate at the same time";
inline constexpr std::string_view kHash = "SERVER_ERROR the key holds a hash";

}  // namespace skua::kv::gateway::memcached_errors

#endif  // SKUA_KVSTORE_GATEWAY_MEMCACHED_ERRORS_H_
