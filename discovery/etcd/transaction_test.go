package etcd_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/internal/testkit"
)

// All changes of one transaction come into force in one table, of whatever kinds its documents are, while other documents change
// all the time.
func TestTransactionIsOneTable(t *testing.T) {
	s := start(t)
	var log logbook
	w, stop := watch(t, etcd.Config{Client: dial(t, s.Address), Kinds: []string{"models/", "pools/", "colos/", "accounts/"},
		WatchTimeout: 30 * testkit.Timeout, Logger: log.logger()}) // so one watch waits for another as long as it must, on a machine however slow
	ready(t, w)
	const rounds = 300
	last := fmt.Sprintf("models/m%d", rounds)
	done := run(t, func(ctx context.Context) error {
		for n := 1; n <= rounds; n++ {
			_, err := s.client.Txn(ctx).Then(
				clientv3.OpPut(prefix+fmt.Sprintf("models/m%d", n), fmt.Sprintf("pool: p%d", n)),
				clientv3.OpPut(prefix+fmt.Sprintf("accounts/a%d", n), "{}"),
				clientv3.OpPut(prefix+fmt.Sprintf("pools/p%d", n), "queue: {limit: 7}"),
			).Commit()
			if err != nil && ctx.Err() == nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	defer done()
	tables := 0
	for {
		changed := w.Changed()
		table := w.Table()
		tables++
		for _, m := range table.Models() {
			if table.Pool(m.Pool).Queue.Limit != 7 {
				t.Fatalf("the table of revision %d has %s and not its pool, which the same transaction put; log:\n%s", table.Revision, m.Name, log.String())
			}
		}
		if len(table.Models()) != len(table.Accounts()) {
			t.Fatalf("a table has %d models and %d accounts", len(table.Models()), len(table.Accounts()))
		}
		if _, ok := table.Model(last[len("models/"):]); ok {
			break
		}
		<-changed
	}
	t.Logf("%d tables", tables)
	stop()
}
