#!/bin/sh
# Tries what `./dev package --release` made: tests/release.sh headers|bare CHECKOUT
#   headers  unpacks the .deb and builds examples/cpp with its library and headers, where the tools are
#   bare     in a Debian 13 with nothing installed: the tarball's program, and the .deb by apt
set -eu
what=$1 here=$2
release=$here/build/release shapes=$here/examples/shapes
fail() { echo "release: $*" >&2; exit 1; }

# A program that quantizes the example and says what it did.
quantizes() {
  out=$(mktemp -d)
  "$@" quantize "$shapes/model.pt2" --calibrate "$shapes/calibration" --preprocess "$shapes/preprocess.json" \
    -o "$out/int8.pt2" >"$out/log" || fail "$1 could not quantize"
  grep -q '^  layers quantized  21 of 21$' "$out/log" || fail "$1 said: $(cat "$out/log")"
  "$@" evaluate "$shapes/model.pt2" "$out/int8.pt2" --data "$shapes/test" --preprocess "$shapes/preprocess.json" \
    --limit 32 >"$out/log" || fail "$1 could not run the model"
  sha256sum <"$out/int8.pt2"
  rm -r "$out"
}

if [ "$what" = headers ]; then
  out=$here/build/release-deb
  rm -rf "$out"; mkdir -p "$out"
  dpkg-deb --extract "$release"/qdq_*.deb "$out/root"
  cmake -S "$here/examples/cpp" -B "$out/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$out/root/usr" >/dev/null
  cmake --build "$out/build" >/dev/null
  "$out/build/quantize_shapes" "$shapes" "$out/int8.pt2" | grep '^calibrated on 128 images'
  exit
fi

! ldconfig -p | grep -Eq 'libdnnl|libhwy|libgomp' || fail "this Debian is not bare"
mkdir /tmp/tarball
tar -xzf "$release"/qdq-*-linux-*.tar.gz -C /tmp/tarball --strip-components 1
# Nothing of this root may help: the tarball's own libraries are found.
[ -z "$(ldd /tmp/tarball/bin/qdq | grep 'not found' || true)" ] || fail "$(ldd /tmp/tarball/bin/qdq)"
ldd /tmp/tarball/bin/qdq | grep -q 'libstdc++.so.6 => /tmp/tarball/' || fail "$(ldd /tmp/tarball/bin/qdq)"
of_tarball=$(quantizes /tmp/tarball/bin/qdq)
ls /tmp/tarball/share/doc/qdq/*/copyright >/dev/null
echo "the tarball runs"

apt-get update -qq >/dev/null 2>&1 || true
DEBIAN_FRONTEND=noninteractive apt-get install -qqy --no-install-recommends "$release"/qdq_*.deb >/tmp/apt.log 2>&1 ||
  fail "$(cat /tmp/apt.log)"
of_deb=$(quantizes qdq)
[ "$of_deb" = "$of_tarball" ] || fail "the .deb and the tarball wrote different models"
for file in /usr/include/qdq/qdq.h /usr/lib/libqdq.a /usr/lib/cmake/qdq/qdqConfig.cmake /usr/lib/pkgconfig/qdq.pc \
  /usr/share/man/man1/qdq.1 /usr/share/qdq/recipe.schema.json /usr/share/bash-completion/completions/qdq; do
  [ -s "$file" ] || fail "the .deb has no $file"
done
apt-get remove -qqy qdq >/dev/null 2>&1
[ ! -e /usr/bin/qdq ] || fail "apt-get remove left /usr/bin/qdq"
echo "the .deb installs, runs and goes again"
