#include "app/security_options.h"

namespace skua::app {

void add_security_options(Command& command, control::CredentialFiles* files) {
  command
      .add_string(
          "cert", &files->certificate,
          "This program's certificate (skuactl cert issue). With it, --key and --ca, all gRPC goes over TLS, and "
          "both sides show who they are. Read again when it changes.")
      .value_name("FILE");
  command.add_string("key", &files->key, "The certificate's private key.").value_name("FILE");
  command
      .add_string("ca", &files->authorities,
                  "Certificates of the authorities whose certificates are believed; two while one is replaced.")
      .value_name("FILE");
}

void add_security_choice(Command& command, control::SecurityChoice* choice) {
  using control::SecurityChoice;
  command.add_choice<SecurityChoice>(
      "security", choice,
      {{"auto", SecurityChoice::kAuto},
       {"off-unsafe", SecurityChoice::kOffUnsafe},
       {"accept", SecurityChoice::kAccept}},
      "auto: with certificates all must show theirs; without, the program listens on loopback only. off-unsafe: "
      "without certificates on any address: whoever reaches it may read, change and delete everything. accept: with "
      "certificates, and peers without are taken as well, while a running cluster gets its certificates.");
}

void add_packets_option(Command& command, rpc::PacketProtection* packets) {
  using rpc::PacketProtection;
  command.add_choice<PacketProtection>(
      "packets", packets,
      {{"default", PacketProtection::kDefault},
       {"off", PacketProtection::kOff},
       {"authenticate", PacketProtection::kAuthenticate},
       {"encrypt", PacketProtection::kEncrypt}},
      "How packets of sessions are protected from others on the network. By default they are encrypted if there is a "
      "certificate. All programs of a cluster must have it on, or all off; nodes with --security accept take both.");
}

void add_packet_key_option(Command& command, DurationNs* lifetime_ns) {
  command
      .add_duration("packet-key-lifetime", lifetime_ns,
                    "How long this side protects its packets with one key. Then it goes on to the next one, without a "
                    "pause; also after four million packets.")
      .range(rpc::kPacketKeyLifetimeMin, rpc::kPacketKeyLifetimeMax);
}

}  // namespace skua::app
