#include "control/server/control_options.h"

#include "app/security_options.h"

namespace skua::control {
namespace {

void declare_examples(app::Program& program) {
  program.example("skua-control --data-dir /var/lib/skua/control", "a control plane for nodes on this machine");
  program.example(
      "skua-control --data-dir /var/lib/skua/control --listen-address 10.0.0.1:7400 --cert c1.pem --key c1.key --ca "
      "ca.pem --authority ca",
      "a control plane for nodes on other machines, which issues certificates to those that have a join token");
  program.example(
      "skua-control --data-dir /var/lib/skua/control --listen-address 10.0.0.1:7400 --cert c1.pem --key c1.key --ca "
      "ca.pem --metadata etcds://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/skua --etcd-ca etcd-ca.pem --etcd-cert "
      "etcd-c1.pem --etcd-key etcd-c1.key",
      "one of several control planes on one etcd");
}

void add_certificate_options(app::Program& program, ControlOptions& options) {
  program
      .add_string(
          "authority", &options.authority,
          "The directory that skuactl cert init made: with its key this control plane issues certificates, to who "
          "has a join token or a certificate that is to be renewed. Of several control processes each needs it.")
      .value_name("DIR");
  program
      .add_string(
          "replaced-authority", &options.replaced_authority,
          "With --authority: the certificate (ca.pem) of the authority that it replaces. For as long as this is "
          "given, certificates of that one are renewed, by --authority. Not if its key may be stolen.")
      .value_name("FILE");
  program
      .add_string(
          "join-address", &options.join_address,
          "With --authority: where those are served who have a join token and no certificate yet. By default the "
          "fifth port after that of --listen-address.")
      .value_name("HOST:PORT")
      .address({.zero_port_allowed = true, .any_host_allowed = true});
  program
      .add_duration("certificate-ttl", &options.certificate_ttl_ns,
                    "How long certificates are good that this control plane issues; nodes renew theirs at half of it.")
      .range(10 * kSecond, int64_t{365} * 24 * 3600 * kSecond);
}

void add_metadata_options(app::Program& program, ControlOptions& options) {
  program
      .add_string("metadata", &options.metadata,
                  "Where the cluster's metadata is kept: \"embedded\" (in the data directory; one control process) or "
                  "etcd://HOST:PORT,.../PREFIX (several control processes with the same value; one leads); etcds:// "
                  "for an etcd with TLS.")
      .value_name("WHERE");
  program
      .add_string(
          "etcd-ca", &options.etcd_tls.authorities,
          "With etcds://: certificates of the authorities whose etcd is believed. Read again when it changes, as "
          "the next two.")
      .value_name("FILE");
  program
      .add_string("etcd-cert", &options.etcd_tls.certificate,
                  "With etcds://: the certificate that this program shows etcd, if it asks for one.")
      .value_name("FILE");
  program.add_string("etcd-key", &options.etcd_tls.key, "The private key of --etcd-cert.").value_name("FILE");
}

void add_limits(app::Program& program, ControlOptions& options) {
  program.add_duration("heartbeat-interval", &options.heartbeat_interval_ns, "How often nodes report.")
      .range(10 * kMillisecond, 60 * kSecond);
  program
      .add_duration("suspect-after", &options.suspect_after_ns,
                    "Silence after which a node counts as gone; at least twice the heartbeat interval.")
      .range(20 * kMillisecond, 3600 * kSecond);
  program
      .add_duration("replace-after", &options.replace_after_ns,
                    "How long a shard that lost a replica waits for its node before another one gets a copy.")
      .range(0, 24 * 3600 * kSecond);
  program
      .add_int("watches-per-host", &options.watches_per_host,
               "How many clients and nodes of one host may follow the shard map. Many machines behind one address need "
               "more.")
      .range(1, static_cast<int64_t>(kWatchersMax));
}

}  // namespace

void declare(app::Program& program, ControlOptions& options) {
  program.add_string("data-dir", &options.data_dir, "This process's own directory: lock, identity, embedded metadata.")
      .value_name("DIR")
      .required();
  add_metadata_options(program, options);
  program
      .add_string("listen-address", &options.listen_address,
                  "Where nodes, clients and skuactl reach it; port 0 takes a free one.")
      .value_name("HOST:PORT")
      .address({.zero_port_allowed = true, .any_host_allowed = true});
  program
      .add_string("advertise-address", &options.advertise_address,
                  "With etcd: what others say who is asked and does not lead; the listen address by default.")
      .value_name("HOST:PORT")
      .address();
  program.add_string("cluster-name", &options.cluster_name,
                     "The cluster's name: kept when it is created (\"skua\" by default), checked later.");
  program
      .add_string("cluster-id", &options.cluster_id,
                  "The cluster's id, a UUID: kept when it is created (a fresh one by default), checked later.")
      .value_name("UUID");
  app::add_security_options(program, &options.credential_files);
  app::add_security_choice(program, &options.security);
  add_certificate_options(program, options);
  program
      .add_string("audit-log", &options.audit_log,
                  "Where it is written who changed the cluster, and, with .refused behind its name, who was refused; "
                  "audit.jsonl in the data directory by default, \"off\": nowhere.")
      .value_name("FILE");
  app::add_http_options(program, &options.http);
  add_limits(program, options);
  app::add_log_options(program, &options.log);
  program.add_bool("check-config", &options.check_config, "Check the configuration and end.").flag_only();
  declare_examples(program);
}

}  // namespace skua::control
