#include "control/core/program_security.h"

namespace skua::control {

std::string describe(const ProgramSecurity& security) {
  switch (security.admission) {
    case Admission::kUnknown: return "unknown";
    case Admission::kLoopback: return "off, loopback only";
    case Admission::kUnsafe: return "OFF-UNSAFE";
    case Admission::kAccept: return "ACCEPT: certificates, and who has none";
    case Admission::kCertificates: break;
  }
  switch (security.packets) {
    case PacketSafety::kUnknown: return "certificates";
    case PacketSafety::kOff: return "certificates, packets off";
    case PacketSafety::kAuthenticate: return "certificates, packets authenticate";
    case PacketSafety::kEncrypt: return "certificates, packets encrypt";
  }
  return "certificates";
}

}  // namespace skua::control
