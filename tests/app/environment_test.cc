#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <utility>

#include "app/config.h"
#include "tests/app/temp_dir.h"

namespace skua::app {
namespace {

using testing::HasSubstr;

// What a program says to one variable.
ParseOutcome outcome_of(const std::string& variable, const std::string& value) {
  Program program({.name = "skuad", .summary = "Storage node"});
  std::string address = "127.0.0.1:7400";
  int64_t memory = 0;
  int rate = 0;
  program.add_string("control-address", &address, "Where.").addresses();
  program.add_size("memory", &memory, "How much.");
  program.add_command("drain", "Drain").add_int("rate", &rate, "Shards.");
  program.action([] { return 0; });
  return program.parse({}, {{variable, value}});
}

TEST(Environment, WhatNobodyTakesIsNamed) {
  const ParseOutcome outcome = outcome_of("SKUA_CONTROL_ADDR", "h:1");
  EXPECT_TRUE(outcome.go_on);
  EXPECT_EQ(
      outcome.warnings,
      "skuad: warning: the environment variable SKUA_CONTROL_ADDR is ignored: no program of Skua takes it; did you "
      "mean SKUA_CONTROL_ADDRESS?\n");
  EXPECT_EQ(outcome_of("SKUA_COLOUR", "red").warnings,
            "skuad: warning: the environment variable SKUA_COLOUR is ignored: no program of Skua takes it\n");
  EXPECT_THAT(outcome_of("SKUA_DRAIN_SPEED", "3").warnings, HasSubstr("SKUA_DRAIN_SPEED is ignored"));
  EXPECT_THAT(outcome_of("SKUA_CONTROL", "h:1").warnings, HasSubstr("did you mean SKUA_CONTROL_ADDRESS?"));
  // Another program's, written wrong.
  EXPECT_THAT(outcome_of("SKUA_LISTEN_ADRESS", "h:1").warnings, HasSubstr("did you mean SKUA_LISTEN_ADDRESS?"));
}

TEST(Environment, WhatNobodyTakesIsNamedBesideARefusal) {
  Program program({.name = "skuad", .summary = "Storage node"});
  std::string dir;
  program.add_string("data-dir", &dir, "Where.").required();
  const ParseOutcome outcome = program.parse({}, {{"SKUA_DATA_DIRECTORY", "/d"}});
  EXPECT_FALSE(outcome.go_on);
  EXPECT_THAT(outcome.warnings, HasSubstr("SKUA_DATA_DIRECTORY is ignored"));
  EXPECT_THAT(outcome.err, HasSubstr("--data-dir"));
}

TEST(Environment, OtherProgramsVariablesAreLeftAlone) {
  for (const char* name : {"SKUA_LISTEN_ADDRESS", "SKUA_TABLE_CREATE_SHARDS", "SKUA_LATENCY_SIZE", "SKUA_BIN_DIR",
                           "SKUA_PLUGIN_DIR", "SKUA_", "SKUA_DPDK_MTU", "SKUATER", "PATH"}) {
    const ParseOutcome outcome = outcome_of(name, "1");
    EXPECT_TRUE(outcome.go_on) << name << outcome.err;
    EXPECT_EQ(outcome.warnings, "") << name;
  }
}

/// The options of skuad and skua-control begin as commands of other programs do.
TEST(Environment, MisspelledOptionsThatBeginAsAnotherProgramsAreRefused) {
  Program program({.name = "skuad", .summary = "Storage node"});
  std::string text;
  program.add_string("dpdk-devices", &text, "Which.");
  program.add_string("verbs-device", &text, "Which.");
  program.add_string("audit-log", &text, "Where.");
  program.action([] { return 0; });
  for (const auto& [name, meant] : {std::pair("SKUA_DPDK_DEVICE", "SKUA_DPDK_DEVICES"),
                                    {"SKUA_VERBS_DEVCE", "SKUA_VERBS_DEVICE"},
                                    {"SKUA_AUDIT_LGO", "SKUA_AUDIT_LOG"}}) {
    const ParseOutcome outcome = program.parse({}, {{name, "1"}});
    EXPECT_FALSE(outcome.go_on) << name;
    EXPECT_THAT(outcome.err, HasSubstr(meant)) << name;
  }
  for (const char* name : {"SKUA_AUDIT_VERIFY_CONTAINS", "SKUA_DPDK_MTU", "SKUA_TABLE_CREATE_SHARDS"}) {
    const ParseOutcome outcome = program.parse({}, {{name, "1"}});
    EXPECT_TRUE(outcome.go_on) << name << outcome.err;
    EXPECT_EQ(outcome.warnings, "") << name;
  }
}

TEST(Environment, VariablesOfAServiceCalledSkuaAreLeftAlone) {
  for (const char* name : {"SKUA_SERVICE_HOST", "SKUA_CONTROL_SERVICE_PORT_GRPC", "SKUA_PORT_7400_TCP_ADDR"}) {
    EXPECT_EQ(outcome_of(name, "10.0.0.1").warnings, "") << name;
  }
  EXPECT_EQ(outcome_of("SKUA_CONTROL_PORT", "tcp://10.0.0.1:7400").warnings, "");
}

TEST(Environment, ASecretInAFileThatEverybodyMayReadIsWarnedOf) {
  const TempDir directory;
  const std::string path = directory.path() + "/skuad.toml";
  const auto warnings = [&](mode_t mode, const char* text) {
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    Program program({.name = "skuad", .summary = "Storage node"});
    std::string token;
    std::string address;
    program.add_string("join-token", &token, "A token.").secret();
    program.add_string("control-address", &address, "Where.");
    program.action([] { return 0; });
    const ParseOutcome outcome = program.parse({"--config", path}, {});
    EXPECT_TRUE(outcome.go_on) << outcome.err;
    return outcome.warnings;
  };
  EXPECT_EQ(warnings(0644, "join_token = \"x\"\n"),
            "skuad: warning: " + path +
                " has the secret of --join-token, and every user of this machine may read it: "
                "chmod 600 " +
                path + "\n");
  EXPECT_EQ(warnings(0640, "join_token = \"x\"\n"), "");
  EXPECT_EQ(warnings(0644, "control_address = \"h:1\"\n"), "") << "there is no secret in it";
}

TEST(Environment, WhatFilesOfVariablesLeaveInThem) {
  EXPECT_EQ(outcome_of("SKUA_MEMORY", "\"1GiB\"").err,
            "skuad: environment variable SKUA_MEMORY has quotes in its value: leave them out (see skuad --help)\n");
  EXPECT_THAT(outcome_of("SKUA_CONTROL_ADDRESS", "'h:1'").err, HasSubstr("has quotes in its value"));
  EXPECT_THAT(outcome_of("SKUA_MEMORY", "1GiB\r").err, HasSubstr("ends with a carriage return"));
  EXPECT_TRUE(outcome_of("SKUA_MEMORY", "1GiB").go_on);
}

}  // namespace
}  // namespace skua::app
