#!/usr/bin/env bash
# The RUN lines of packaging/Dockerfile, one after the other, in this tree, and then its command as its user. For a tree
# that may be thrown away, as root: `make fresh-image`. It shows that the lines work, not that an image was built.
set -eu
[ "$(id -u)" = 0 ] && [ "$(pwd)" = /understudy ] || { echo "only in a tree of tools/fresh.sh" >&2; exit 1; }
grep '^RUN ' packaging/Dockerfile | cut -c5- >/tmp/runs
[ -s /tmp/runs ] || { echo "packaging/Dockerfile has no RUN lines" >&2; exit 1; }
while IFS= read -r line; do
  echo "RUN $line"
  DEBIAN_FRONTEND=noninteractive sh -ec "$line" </dev/null >/tmp/log 2>&1 || { tail -n 20 /tmp/log >&2; exit 1; }
done </tmp/runs
cd /var/lib/understudy
as_user() { setpriv --reuid=understudy --regid=understudy --clear-groups /opt/understudy/bin/understudy "$@"; }
as_user info
as_user gateway --help >/dev/null
echo "the RUN lines of the image work; the image itself was not built"
