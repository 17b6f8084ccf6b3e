#!/usr/bin/env bash
# Workers on a store that lies on NFS, each machine with a client of its own, in a Linux that this script starts.
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

usage() {
  cat <<'HELP'
usage: bash scripts/nfs_test.sh [CROSSTALK]

Starts a user-mode Linux on the files of this machine (read only), with an NFS server on ext4 and two clients that share no
cache, and trains a study of 120 runs by two workers that take each other for other machines: NFS 4.2 and 3, undisturbed, with
three kills (kill -9), and with `crosstalk compact` beneath them. Exit code 0: every export, seen from either client, equals that of
one process to the byte; it says how many runs were recorded twice. Needs root and
apt-get install user-mode-linux nfs-kernel-server kmod iproute2; 77: skipped, with the reason.
HELP
}

if [ $$ != 1 ]; then # here; what follows is process 1 of that Linux
  if [ $# -gt 1 ] || [ "${1:-}" = --help ]; then usage; exit 2; fi
  self=$(realpath "${BASH_SOURCE[0]}")
  crosstalk=$(realpath "${1:-$(dirname "$self")/../build/cpu/crosstalk}")
  for tool in linux.uml mount.nfs rpc.nfsd modprobe mkfs.ext4; do
    PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
  done
  [ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  truncate -s 600M "$folder/disk" && /sbin/mkfs.ext4 -q "$folder/disk"
  timeout 1800 linux.uml mem=1500M "ubd0=$folder/disk" root=/dev/root rootfstype=hostfs rootflags=/ ro init=/bin/bash \
    con=null con0=null,fd:1 "CROSSTALK=$crosstalk" -- "$self" </dev/null 2>/dev/null | tr -d '\r' | sed -n 's/^nfs: //p' | tee "$folder/said"
  grep -qx passed "$folder/said"
  exit
fi

export PATH=/usr/sbin:/usr/bin:/sbin:/bin OMP_NUM_THREADS=1
tell() { echo "nfs: $*"; }
mount -t proc proc /proc
for place in /run /tmp /mnt /var/lib/nfs; do mount -t tmpfs tmpfs $place; done
mkdir -p /run/lib/modules /mnt/srv /mnt/a /mnt/b /var/lib/nfs/v4recovery /var/lib/nfs/sm /run/rpcbind
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
ln -s "/usr/lib/uml/modules/$(uname -r)" "/run/lib/modules/$(uname -r)"
for module in nfsd nfsv4 nfsv3; do modprobe -d /run $module; done
ip link set lo up
mount -t ext4 /dev/ubda /mnt/srv
mount -t nfsd nfsd /proc/fs/nfsd
rpcbind -w
exportfs -o rw,no_root_squash,fsid=0,insecure,no_subtree_check '*:/mnt/srv'
rpc.mountd 2>/dev/null
rpc.nfsd -G 10 -L 10 4 2>/dev/null

cd /run || exit
cat >nfs.toml <<'TOML'
[study]
name  = "nfs"
seeds = { range = [1, 20] }
[base]
task.name       = "recall"
model.d_key     = 8
train.max_steps = 1500
train.stop_loss = 0
train.patience  = 1000
eval.every      = 50
eval.sequences  = 8
[memories.softmax]
name = "softmax"
[memories.delta]
name = "delta"
[[grid]]
"task.associations" = [4, 6, 8]
TOML
# shellcheck disable=SC2153 # of the kernel command line
exports() { "$CROSSTALK" export "$1" && "$CROSSTALK" export "$1" --curves; }
worker() { # worker HOST CLIENT SHARE: with a name and process numbers of its own
  unshare -u -p --fork bash -c "hostname $1; exec $CROSSTALK work /mnt/$2/$store --device cpu --threads 1 --share $3 --lease 5 --quiet" \
    2>&1 | sed "s/^/$1: /" &
}
shards() { cat "/mnt/a/$store"/shards/*.jsonl 2>/dev/null | wc -l; }
failed=0
one_round() { # one_round VERSION NAME
  store=$2-$1
  "$CROSSTALK" submit slurm nfs.toml --cpus 2 --time 1h --out "/mnt/a/$store" 2>/dev/null # no sbatch here: the store is made
  worker n1 a 1/2
  worker n2 b 2/2
  case $2 in
    kill*)
      for records in 15 40 65; do
        while [ "$(shards)" -lt $records ]; do sleep 0.1; done
        pkill -KILL -f "work /mnt/b/$store"
        sleep 0.5
        worker "n2-$records" b 2/2
      done
      ;;
    compact) for _ in 1 2 3; do sleep 2; "$CROSSTALK" compact "/mnt/b/$store" >/dev/null 2>&1 || failed=1; done ;;
  esac
  wait
  for client in a b; do exports "/mnt/$client/$store" | cmp - alone.csv || { tell "$store: $client sees another export"; failed=1; }; done
  tell "NFS $1, $2: $("$CROSSTALK" status "/mnt/b/$store" --json | sed -n 's/.*"duplicates": \([0-9]*\).*/\1/p') of 120 runs recorded twice"
}
"$CROSSTALK" run nfs.toml --out alone --quiet --device cpu
exports alone >alone.csv
[ "$(wc -l <alone.csv)" -gt 121 ] || failed=1
for version in 4.2 3; do
  path=/ options=vers=$version,nosharecache
  if [ $version = 3 ]; then path=/mnt/srv options+=,nolock; fi
  for client in a b; do mount -t nfs -o "$options" "127.0.0.1:$path" /mnt/$client || failed=1; done
  for name in calm1 calm2 kill1 kill2 kill3 compact; do one_round $version $name; done
  umount /mnt/a /mnt/b
done
if [ $failed = 0 ]; then tell passed; else tell failed; fi
sync
echo o >/proc/sysrq-trigger
sleep 10
