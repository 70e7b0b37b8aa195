// What Redis 7.0 says when something is wrong, word for word: clients look at these texts. What the gateway adds of its
// own stands at the end.
#ifndef SKUA_KVSTORE_GATEWAY_REDIS_ERRORS_H_
#define SKUA_KVSTORE_GATEWAY_REDIS_ERRORS_H_

#include <string_view>

namespace skua::kv::gateway::errors {

inline constexpr std::string_view kWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";
inline constexpr std::string_view kSyntax = "ERR syntax error";
inline constexpr std::string_view kNotAnInteger = "ERR value is not an integer or out of range";
inline constexpr std::string_view kNotAnInt32 =
    "ERR value is out of range, value must between -2147483648 and 2147483647";
inline constexpr std::string_view kNotAFloat = "ERR value is not a valid float";
inline constexpr std::string_view kSumOverflow = "ERR increment or decrement would overflow";
inline constexpr std::string_view kDecrementOverflow = "ERR decrement would overflow";
inline constexpr std::string_view kFloatSumOverflow = "ERR increment would produce NaN or Infinity";
inline constexpr std::string_view kHashNotAnInteger = "ERR hash value is not an integer";
inline constexpr std::string_view kHashNotAFloat = "ERR hash value is not a float";
inline constexpr std::string_view kNanOrInfinity = "ERR value is NaN or Infinity";
inline constexpr std::string_view kOffsetOutOfRange = "ERR offset is out of range";
inline constexpr std::string_view kValueTooLarge = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
inline constexpr std::string_view kExpireNxAndOthers =
    "ERR NX and XX, GT or LT options at the same time are not compatible";
inline constexpr std::string_view kExpireGtAndLt = "ERR GT and LT options at the same time are not compatible";
inline constexpr std::string_view kInvalidCursor = "ERR invalid cursor";
inline constexpr std::string_view kDatabaseOutOfRange = "ERR DB index is out of range";
inline constexpr std::string_view kNoPassword =
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration "
    "is correct?";
inline constexpr std::string_view kWrongPassword = "WRONGPASS invalid username-password pair or user is disabled.";
inline constexpr std::string_view kNotAuthenticated = "NOAUTH Authentication required.";
inline constexpr std::string_view kExecNotAuthenticated =
    "EXECABORT Transaction discarded because of: NOAUTH Authentication required.";
inline constexpr std::string_view kHelloNotAuthenticated =
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option "
    "can be used to authenticate the client and select the RESP protocol version at the same time";
inline constexpr std::string_view kNoRightForKey =
    "NOPERM this user has no permissions to access one of the keys used as arguments";
inline constexpr std::string_view kRightWasLost =
    "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is "
    "no longer allowed for the following reason: no permission to touch the specified keys";
inline constexpr std::string_view kNoSuchProtocol = "NOPROTO unsupported protocol version";
inline constexpr std::string_view kProtocolNotAnInteger = "ERR Protocol version is not an integer or out of range";
inline constexpr std::string_view kClientName =
    "ERR Client names cannot contain spaces, newlines or special characters.";

// Of transactions.
inline constexpr std::string_view kNestedMulti = "ERR MULTI calls can not be nested";
inline constexpr std::string_view kWatchInsideMulti = "ERR WATCH inside MULTI is not allowed";
inline constexpr std::string_view kExecWithoutMulti = "ERR EXEC without MULTI";
inline constexpr std::string_view kDiscardWithoutMulti = "ERR DISCARD without MULTI";
inline constexpr std::string_view kExecAborted = "EXECABORT Transaction discarded because of previous errors.";
inline constexpr std::string_view kExecArity =
    "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command";
inline constexpr std::string_view kNotInMulti = "ERR Command not allowed inside a transaction";
inline constexpr std::string_view kCrossSlot = "CROSSSLOT Keys in request don't hash to the same slot";

// The gateway's own.
inline constexpr std::string_view kKeySize = "ERR a key must have 1 to 1024 bytes";
inline constexpr std::string_view kFieldSize = "ERR a field of a hash must have a name of 1 to 1024 bytes";
inline constexpr std::string_view kTooManyFields = "ERR a hash must have at most 1024 fields";
inline constexpr std::string_view kHashTooLarge = "ERR a hash must have at most 16 MiB";
inline constexpr std::string_view kNoFlush = "ERR the gateway removes whole tables only with --allow-flush";
inline constexpr std::string_view kTooManyKeysInMsetnx = "ERR MSETNX takes at most 1024 keys";
inline constexpr std::string_view kReplyTooLarge =
    "ERR the reply would be larger than 64 MiB: ask for fewer keys at a time";
/// The same without its "ERR".
inline constexpr std::string_view kReplyTooLargeText = kReplyTooLarge.substr(4);
inline constexpr std::string_view kPatternTooLong = "ERR a pattern must have at most 4096 bytes";
inline constexpr std::string_view kTooManyQuestions = "ERR too many arguments: ask for at most 256 at a time";
inline constexpr std::string_view kChangesTooOften = "TRYAGAIN others change the key all the time: nothing was written";
inline constexpr std::string_view kTooManyWatchedKeys = "ERR too many watched keys: at most 1024 at a time";
inline constexpr std::string_view kTransactionTooLarge =
    "ERR the transaction is too large: it has at most 1024 commands, and these take at most 32 MiB";
inline constexpr std::string_view kPatternTooLongForHash =
    "ERR the pattern is too long for a hash with so many names: ask for all fields, or use a shorter pattern";
inline constexpr std::string_view kNoRoomToQueue = "TRYAGAIN the gateway has no room for the command";
inline constexpr std::string_view kNoRoomForValues =
    "TRYAGAIN the gateway has no room for the values: nothing was written";
/// The same without its "TRYAGAIN".
inline constexpr std::string_view kNoRoomForValuesText = kNoRoomForValues.substr(9);
inline constexpr std::string_view kTooManyKeysInExec =
    "ERR the transaction has too many keys: at most 1024. Nothing was written";
inline constexpr std::string_view kExecTooLarge =
    "ERR the values of the transaction, or its replies, are larger than 64 MiB, or it makes more than 512 MiB of "
    "values: nothing was written";
inline constexpr std::string_view kTooManyAuthenticate = "TRYAGAIN too many clients authenticate at the same time";
inline constexpr std::string_view kUnknownCursor =
    "ERR invalid cursor: this gateway does not know it, or has forgotten it; begin again with 0";

}  // namespace skua::kv::gateway::errors

#endif  // SKUA_KVSTORE_GATEWAY_REDIS_ERRORS_H_
