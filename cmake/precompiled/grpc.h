// Precompiled for the few libraries that speak gRPC (see common.h).
#include <grpcpp/grpcpp.h>

#include "cmake/precompiled/common.h"
