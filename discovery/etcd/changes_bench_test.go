package etcd_test

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// BenchmarkChangesOneByOne puts accounts one after the other beside 3000 accounts, with a pause after each. It reports the
// processor time of a node that follows them, with that of the client that puts them, and how many tables the node builds.
func BenchmarkChangesOneByOne(b *testing.B) {
	for _, pause := range []time.Duration{0, 4 * time.Millisecond, 25 * time.Millisecond} {
		b.Run("pause="+pause.String(), func(b *testing.B) { benchmarkChanges(b, pause) })
	}
}

func benchmarkChanges(b *testing.B, pause time.Duration) {
	client := dial(b, etcdtest.StartProcess(b, testkit.EtcdProgram(b)).Address)
	put := func(n, weight int) {
		if _, err := client.Put(b.Context(), fmt.Sprintf("%saccounts/a%d", prefix, n), fmt.Sprintf("weight: %d", weight)); err != nil {
			b.Fatal(err)
		}
	}
	for n := range 3000 {
		put(n, 1)
	}
	w := etcd.NewWatcher(etcd.Config{Client: client, Prefix: prefix, Cache: filepath.Join(b.TempDir(), "table"),
		Kinds: []string{"defaults", "models/", "colos/", "accounts/", "keys/", "servers/"}})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	<-w.Ready()
	time.Sleep(100 * time.Millisecond)
	before, tables := cpu(b), w.State().Tables
	i := 0
	for b.Loop() {
		i++
		put(i%3000, 2+i%9)
		time.Sleep(pause)
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/1000/float64(i), "cpu-ms/put")
	b.ReportMetric(float64(w.State().Tables-tables)/float64(i), "tables/put")
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
