#!/bin/sh
# kubernetes.sh FOLDER: leaves in FOLDER/bin what a Kubernetes node and its control plane need.
#
# etcd, containerd, runc and the network plugins are Debian's. Of Kubernetes, Debian packages only
# the client, but ships the whole source: its servers are compiled here, with Debian's Go.
# The hash of this file and of packages.sh names the folder in the cache.

here=$(cd "$(dirname "$0")" && pwd)
. "$here/packages.sh"
folder=$1
work=$folder/work
log=$folder/build.log
mkdir -p "$folder/bin" "$work/debs" "$work/root" "$work/gopath/src/k8s.io" "$work/gocache"

say "downloading Go, etcd, containerd, runc and Kubernetes' source"
prepare_apt "$work/apt" >>"$log" 2>&1
cd "$work/debs"
apt-get -q download etcd-server containerd runc containernetworking-plugins busybox-static libseccomp2 \
    golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev >>"$log" 2>&1
apt-get -q source --download-only --tar-only kubernetes=1.20.5+really1.20.2-1.1+deb12u1 >>"$log" 2>&1

say "unpacking"
unpack "$work/root" ./*.deb
source=$work/gopath/src/k8s.io/kubernetes
mkdir "$source"
tar -C "$source" --strip-components=1 -xzf kubernetes_*.orig.tar.gz
cd "$work/root"
cp -a usr/bin/etcd usr/bin/containerd usr/bin/containerd-shim-runc-v2 usr/bin/ctr usr/sbin/runc \
    bin/busybox "$folder/bin"
mkdir -p "$folder/cni" "$folder/lib"
cp -a usr/lib/cni/bridge usr/lib/cni/host-local usr/lib/cni/loopback "$folder/cni"
cp -a usr/lib/*/libseccomp.so.2* "$folder/lib"  # runc's, for machines without it

# Without modules: Go 1.19 does not accept the vendored modules of a source from 2021.
export GOROOT="$work/root/usr/lib/go-1.19" GOPATH="$work/gopath" GOCACHE="$work/gocache"
export PATH="$GOROOT/bin:$PATH" GO111MODULE=off GOFLAGS= CGO_ENABLED=0
# More memory for less time: the compiler collects garbage four times as rarely.
export GOGC=400
cd "$source"

# The vendored reflect2 crashes with Go 1.18 and later.
reflect=vendor/github.com/modern-go/reflect2
rm -f $reflect/*.go $reflect/*.s
cp "$work"/root/usr/share/gocode/src/github.com/modern-go/reflect2/*.go $reflect/
cp "$work"/root/usr/share/gocode/src/github.com/modern-go/reflect2/*.s $reflect/

# The API server's schema is generated; Debian's source comes without it.
say "generating the API's schema"
go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen >>"$log" 2>&1
inputs=$(grep -rlR --include='*.go' --exclude='zz_generated*' --exclude='*_test.go' \
        '+k8s:openapi-gen=' vendor/k8s.io pkg cmd plugin |
    grep -vE '^vendor/k8s.io/(code-generator|sample-[a-z]*|kube-openapi|gengo)/' |
    xargs -n 1 dirname | sort -u | sed 's#^#k8s.io/kubernetes/#' | paste -sd, -)
"$work/openapi-gen" --logtostderr --input-dirs "$inputs" --output-base "$GOPATH/src" \
    --output-package k8s.io/kubernetes/pkg/generated/openapi \
    --output-file-base zz_generated.openapi \
    --go-header-file vendor/k8s.io/code-generator/hack/boilerplate.go.txt \
    --report-filename "$work/violations" >>"$log" 2>&1

servers="./cmd/kube-apiserver ./cmd/kube-controller-manager ./cmd/kube-scheduler ./cmd/kubelet"
tags="providerless dockerless"
version=k8s.io/kubernetes/vendor/k8s.io/component-base/version
client=k8s.io/kubernetes/vendor/k8s.io/client-go/pkg/version
flags="-s -w"
for name in $version $client; do
    flags="$flags -X $name.gitVersion=v1.20.2 -X $name.gitMajor=1 -X $name.gitMinor=20"
    flags="$flags -X $name.gitCommit=faecb196815e248d3ecfb03c680a4507229c2a56"
    flags="$flags -X $name.gitTreeState=archive -X $name.buildDate=2021-01-13T13:20:00Z"
done
total=$(go list -deps -tags "$tags" $servers 2>>"$log" | wc -l)
say "compiling $total packages of Kubernetes 1.20.2"
: >"$work/compiled"
go build -v -trimpath -tags "$tags" -gcflags=all=-dwarf=false -ldflags "$flags" -o "$folder/bin/" $servers \
    >>"$work/compiled" 2>&1 &
compiler=$!
passed=0
while kill -0 $compiler 2>/dev/null; do
    sleep 1
    passed=$((passed + 1))
    [ $((passed % 15)) -ne 0 ] ||
        say "compiled $(grep -c / "$work/compiled" || :) of $total packages, then linking"
done
wait $compiler || { cat "$work/compiled" >>"$log"; exit 1; }
rm -rf "$work"
say "Kubernetes is built"
