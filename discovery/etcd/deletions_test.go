package etcd

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/internal/etcdtest"
)

func keyDocument(secret string) string {
	return fmt.Sprintf("{id: %s, sha256: '%x'}", secret, sha256.Sum256([]byte(secret)))
}

// What was deleted and put again under other names is the store's, whichever name comes first: URL, alias and key.
func TestHeldIsDisplaced(t *testing.T) {
	const n = 12
	f := func(before, after string) {
		t.Helper()
		b := newBook(t)
		var old []string
		write := func(name, version string) (keys []string) {
			for i := range n {
				for _, d := range [][2]string{
					{"endpoints/ams/", fmt.Sprintf("{url: 'http://h%d', pool: %s}", i, version)},
					{"models/", fmt.Sprintf("{aliases: [x%d], pool: %s}", i, version)},
					{"accounts/", fmt.Sprintf("keys: [%s]", keyDocument(fmt.Sprintf("k%d", i)))},
				} {
					keys = append(keys, fmt.Sprintf("%s%s%02d", d[0], name, i))
					b.write(keys[len(keys)-1], d[1], false)
				}
			}
			return keys
		}
		old = write(before, "old")
		b.write("accounts/"+before+"00", "keys: ["+keyDocument("k0")+", "+keyDocument("another")+"]", false)
		b.after(0)
		b.erase(old...)
		if table := b.after(time.Second); len(table.Held) != 3*n {
			t.Fatalf("held %q", table.Held)
		}
		write(after, "new")
		table := b.after(time.Second)
		if len(table.Held) != 2*n || len(table.EndpointsOf("ams")) != n || len(table.Endpoints("ams", "new")) != n {
			t.Errorf("%s, %s: held %q, %d endpoints, %d new", before, after, table.Held, len(table.EndpointsOf("ams")), len(table.Endpoints("ams", "new")))
		}
		for i := range n {
			if m, _ := table.Model(fmt.Sprintf("x%d", i)); m == nil || m.Pool != "new" {
				t.Errorf("%s, %s: alias x%d leads to %+v", before, after, i, m)
			}
			if a, _, _ := table.AccountByKeyHash(sha256.Sum256([]byte(fmt.Sprintf("k%d", i)))); a == nil || a.Name != fmt.Sprintf("%s%02d", after, i) {
				t.Errorf("%s, %s: key %d is that of %+v", before, after, i, a)
			}
		}
		// What nobody else claims stays.
		if _, ok := table.Model(before + "03"); !ok {
			t.Error("a held model lost its name with its alias")
		}
		if a, _, _ := table.AccountByKeyHash(sha256.Sum256([]byte("another"))); a == nil || a.Name != before+"00" {
			t.Errorf("the other key is that of %+v", a)
		}
		// Put again, it claims as before.
		b.write("models/"+before+"03", "{aliases: [x3], pool: old}", false)
		if m, _ := b.after(0).Model("x3"); m.Name != min(before, after)+"03" {
			t.Errorf("alias x3 leads to %s", m.Name)
		}
	}
	f("a", "z")
	f("z", "a")
}

// Models that were renamed and go on under their old names as aliases; and what the file of an earlier run held back.
func TestHeldModelIsRenamed(t *testing.T) {
	f := func(name string) {
		t.Helper()
		b := newBook(t)
		for i := range 12 {
			b.restore(cachedDocument{Key: fmt.Sprintf("models/m%02d", i), Value: []byte("{aliases: [x]}"), Revision: 1, Held: 3}, b.now)
		}
		b.revision = 3
		b.write("models/"+name, "{aliases: [m00, x]}", false)
		table := b.after(0)
		for _, alias := range []string{"m00", "x"} {
			if m, _ := table.Model(alias); m == nil || m.Name != name {
				t.Errorf("%s leads to %+v", alias, m)
			}
		}
		if len(table.Held) != 11 || table.Held[0] != "models/m01" {
			t.Errorf("held %q", table.Held)
		}
	}
	f("a")
	f("z")
}

// While the store answers every list, the grace of suspects goes on, however often the watch is lost; after an outage it begins
// anew.
func TestGraceGoesOn(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client := s.Client(t)
	const key = "servers/ams/a"
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := client.Grant(ctx, 3600)
	if err == nil {
		_, err = client.Put(ctx, DefaultPrefix+key, activeServer, clientv3.WithLease(lease.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	w := NewWatcher(Config{Client: client, Prefix: DefaultPrefix})
	round := func() time.Time {
		t.Helper()
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := w.round(short, nil); err == nil {
			t.Fatal("the round did not end with an error")
		}
		return w.ledger.entries[key].since
	}
	round()
	if _, err := client.Revoke(ctx, lease.ID); err != nil {
		t.Fatal(err)
	}
	began := round()
	if got := w.Table().Suspect; len(got) != 1 {
		t.Fatalf("suspect %q", got)
	}
	if again := round(); !again.Equal(began) {
		t.Errorf("the grace began anew %v later, without an outage", again.Sub(began))
	}
	w.lost(ctx, context.DeadlineExceeded)
	if again := round(); !again.After(began) {
		t.Error("the grace did not begin anew after an outage")
	}
}
