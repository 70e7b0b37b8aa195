// Precompiled for GoogleTest executables (see common.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/precompiled/common.h"
