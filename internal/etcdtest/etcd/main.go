// Command etcd is the etcd server, for tests that kill and stop processes: see package etcdtest. It ends when its standard
// input ends, so that it never outlives the test.
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
