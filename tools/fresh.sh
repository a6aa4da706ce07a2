#!/usr/bin/env bash
# The README's two commands in a Debian tree that holds only python3, python3-venv and make.
#   bash tools/fresh.sh bookworm|trixie [commands]     needs root and debootstrap; MIRROR=... names another mirror
set -eu
suite=$1
shift
commands=${*:-make demo && make test}
top=$(cd "$(dirname "$0")/.." && pwd)
tree=$top/build/fresh/$suite
[ "$(id -u)" = 0 ] || { echo "a tree of its own needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "on Debian: apt-get install debootstrap" >&2; exit 1; }
mirror=${MIRROR:-$(awk '/^URIs:|^deb / { for (i = 2; i <= NF; i++) if ($i ~ /\/debian\/?$/) { print $i; exit } }' \
  /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true)}

unmount() { umount -l "$tree/proc" "$tree/dev" 2>/dev/null || true; }
trap unmount EXIT
unmount
rm -rf --one-file-system "$tree"  # never into what is mounted there
mkdir -p "$tree"
echo "a tree of $suite in build/fresh/$suite"
debootstrap --variant=minbase --include=python3,python3-venv,make,ca-certificates "$suite" "$tree" ${mirror:+"$mirror"} >"$tree.log" 2>&1 \
  || { tail -n 20 "$tree.log" >&2; exit 1; }
mount -t proc proc "$tree/proc"
mount --bind /dev "$tree/dev"
# how this machine reaches the network and its package indexes
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
  if [ -e "$file" ]; then cp -L "$file" "$tree$file"; fi
done
if [ -d /etc/apt/apt.conf.d ]; then cp -n /etc/apt/apt.conf.d/*proxy* "$tree/etc/apt/apt.conf.d/" 2>/dev/null || true; fi
mkdir -p "$tree/understudy"
git -C "$top" archive HEAD | tar -x -C "$tree/understudy"
# nothing of this machine's environment but its proxies
proxies=$(env | grep -i '_proxy=' || true)
# shellcheck disable=SC2086  # words of their own
chroot "$tree" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 CI="${CI:-}" $proxies \
  bash -c "cd /understudy && python3 --version && $commands"
echo "$suite: passed"
