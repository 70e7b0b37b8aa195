// What nodes learn to do from version to version, as bits. A node says which it knows in its answer to Describe
// (control/proto/bootstrap.proto), before the first packet of a session. So a client can refuse a request that an older
// node would call malformed, and say what to upgrade. Nodes older than these bits say 0.
//
// A bit is never used again for something else. What all nodes know that this build works with needs no bit.
#ifndef SKUA_KVSTORE_TYPES_FEATURES_H_
#define SKUA_KVSTORE_TYPES_FEATURES_H_

#include <cstdint>

namespace skua::kv {

using Features = uint64_t;  ///< a set of the bits below

inline constexpr Features kFeatureBatchCheck = 1;   ///< checks in batches
inline constexpr Features kFeatureMarks = 2;        ///< marks of records (record_mark.h)
inline constexpr Features kFeatureScanKeys = 4;     ///< SCANs without values, and SCANs that only count
inline constexpr Features kFeatureGetSize = 8;      ///< GETs of the value's size
inline constexpr Features kFeatureRowEdits = 16;    ///< PATCHes that remove fields and count what they change
inline constexpr Features kFeatureMemoryOnly = 32;  ///< MULTI_GETs of what memory has
inline constexpr Features kFeatureGetFields = 64;   ///< GETs of some fields of a row

/// What a node of this build knows.
inline constexpr Features kNodeFeatures = kFeatureBatchCheck | kFeatureMarks | kFeatureScanKeys | kFeatureGetSize |
                                          kFeatureRowEdits | kFeatureMemoryOnly | kFeatureGetFields;

/// What the feature of this bit is called in messages.
[[nodiscard]] inline const char* feature_name(Features one) {
  switch (one) {
    case kFeatureBatchCheck: return "checks in batches";
    case kFeatureMarks: return "marks of records";
    case kFeatureScanKeys: return "scans without values";
    case kFeatureGetSize: return "reads of a value's size";
    case kFeatureRowEdits: return "patches that remove or count fields";
    case kFeatureMemoryOnly: return "reads of what memory has";
    case kFeatureGetFields: return "reads of some fields of a row";
    default: return "what this client asks for";
  }
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_FEATURES_H_
