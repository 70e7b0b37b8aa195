# Makes Redis's own test suite fit for the gateway, as an external server. suites_test.py has it read by
# tests/test_helper.tcl of an unpacked Redis, after that file's own procedures and before the tests.

# Between units the suite removes all keys, functions and statistics, and sets options. The gateway has the keys only.
proc run_external_server_test {code overrides} {
    set srv {}
    dict set srv "host" $::host
    dict set srv "port" $::port
    dict set srv "config" [dict create "port" $::port]
    dict set srv "client" [redis $::host $::port 0 $::tls]
    lappend ::servers $srv
    if {!$::singledb} {r select 9}
    r flushall
    uplevel 2 $code
    set srv [lpop ::servers]
    [dict get $srv "client"] close
}

# Units choose the encodings of values in memory, and stop the removal of expired keys, outside of tests. Neither is there.
rename r r_of_the_suite
proc r {args} {
    set words [string tolower $args]
    foreach pattern {"config set hash-max-*" "config set list-max-*" "config set set-max-*" "config set zset-max-*"
                     "config resetstat" "debug set-active-expire *" "debug jmap*"} {
        if {[string match $pattern $words]} {return OK}
    }
    foreach pattern {"config get hash-max-*" "config get list-max-*" "config get set-max-*" "config get zset-max-*"} {
        if {[string match $pattern $words]} {return [list [lindex $args 2] 0]}
    }
    uplevel 1 [list r_of_the_suite {*}$args]
}

# What a key takes in memory is asked outside of tests.
proc memory_usage key {return 1}
