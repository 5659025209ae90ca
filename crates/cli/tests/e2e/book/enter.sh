#!/bin/sh
# enter ROOT HAUL COMMAND...: runs the command in the file system ROOT, which shares the programs of this machine and
# has all other directories to itself. In a mount namespace of its own, so nothing stays mounted.
set -eu
root=$1 haul=$2
shift 2
for dir in usr bin sbin lib lib32 lib64 libx32; do
    if [ -d "$root/$dir" ] && [ ! -L "$root/$dir" ]; then mount -o bind,ro "/$dir" "$root/$dir"; fi
done
mount -o bind,ro /etc "$root/.etc"
for dir in dev proc sys; do mount --rbind "/$dir" "$root/$dir"; done
# A machine without haul has no such file.
if [ -e "$root/opt/haul/bin/haul" ]; then mount --bind "$haul" "$root/opt/haul/bin/haul"; fi
if [ -d "$root/opt/haul/hosts" ]; then mount --bind "${root%/*}" "$root/opt/haul/hosts"; fi
exec chroot "$root" /usr/bin/env -u HAUL_CONFIG -u XDG_RUNTIME_DIR -u XDG_STATE_HOME -u TMPDIR -u AWS_CA_BUNDLE HOME=/root \
    PATH=/opt/haul/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /bin/sh -c 'cd /root && exec "$@"' sh "$@"
