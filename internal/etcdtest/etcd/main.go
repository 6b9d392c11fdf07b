// Command etcd is etcd as it is, for tests that kill and stop processes: see package etcdtest. It ends when its
// standard input does, so that it never outlives the test.
package main

import (
	"io"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	go etcdmain.Main(os.Args)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
