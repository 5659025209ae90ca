#!/bin/sh
# Does what systemctl does for the services of the book, on a machine on which systemd does not run.
set -eu
packaging=/opt/haul/packaging
case "$*" in
"start mariadb")
    mariadbd --user=mysql --skip-networking --innodb-buffer-pool-size=64M --log-error=/var/log/mariadb.err \
        </dev/null >/dev/null 2>&1 &
    for _ in $(seq 300); do
        mariadb -e 'select 1' >/dev/null 2>&1 && exit 0
        sleep 0.1
    done
    cat /var/log/mariadb.err
    exit 1
    ;;
"stop mariadb")
    mariadb-admin ping >/dev/null 2>&1 || exit 0
    mariadb-admin shutdown
    while [ -e /run/mysqld/mysqld.pid ]; do sleep 0.1; done
    ;;
"start haul-sync@"*.service)
    name=${2#haul-sync@}
    name=${name%.service}
    value() { sed -n "s|^$2=||p" "$1"; }
    conf=/etc/haul/sync/$name.conf
    SOURCE=$(value "$conf" SOURCE) DESTINATION=$(value "$conf" DESTINATION) OPTIONS=$(value "$conf" OPTIONS)
    export "$(value "$packaging/haul-sync@.service" Environment)"
    command=$(value "$packaging/haul-sync@.service" ExecStart)
    eval "${command#/usr/bin/}"
    ;;
"enable --now haul-sync@"*.timer)
    name=${3#haul-sync@}
    test -e "/etc/haul/sync/${name%.timer}.conf"
    test -e "$packaging/haul-sync@.timer"
    ;;
*)
    echo "systemctl: the test does not know $*" >&2
    exit 1
    ;;
esac
