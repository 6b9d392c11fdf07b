package entry

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/reasons"
)

const twoServers = "---\nkey: colos/ams\nregion: eu\n---\nkey: servers/ams/ams-1\naddress: 127.0.0.1:1\nboot: x\n" +
	"---\nkey: colos/fra\nregion: eu\n---\nkey: servers/fra/fra-1\naddress: 127.0.0.1:2\nboot: x\n"

// A server that the table does not have is awaited for at most a second, and not at all if the table is as new as the verdict.
func TestNamedServerIsAwaited(t *testing.T) {
	older := tableOf(t, "key: models/m\n"+twoServers)
	f := func(name string, v hop.Verdict, state fleet.StoreState, ends, want time.Duration, found bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			table := older.WithStoreState(state)
			ctx, cancel := context.WithTimeout(t.Context(), ends)
			defer cancel()
			c := &call{Request: &server.Request{Context: ctx}, entry: &Entry{config: Config{Table: tableFunc(table)}}}
			began := time.Now()
			s := c.serverNamed("ams", v)
			if took := time.Since(began); took != want || (s != nil) != found || found && c.table != table {
				t.Errorf("%s: %+v after %v", name, s, took)
			}
		})
	}
	named := func(address, boot string) hop.Verdict {
		return hop.Verdict{To: "ams-1", Address: address, Boot: boot, Protocol: 4, Revision: 9}
	}
	const known = "127.0.0.1:1" // the address of ams-1 in the table, where its boot id is x
	at := func(name string, v hop.Verdict, state fleet.StoreState, want peer.Server) {
		t.Helper()
		c := &call{Request: &server.Request{Context: t.Context()}, entry: &Entry{config: Config{Table: tableFunc(older.WithStoreState(state))}}}
		if s := c.serverNamed("ams", v); s == nil || peerOf(s) != want {
			t.Errorf("%s: %+v, want %+v", name, s, want)
		}
	}
	at("at once, not in the table", hop.Verdict{To: "ams-2", Address: "h:1", Boot: "y", Revision: 9}, fleet.StoreState{Listed: 8},
		peer.Server{Colo: "ams", Node: "ams-2", Address: "h:1", Boot: "y"})
	at("another address", named("h:1", "x"), fleet.StoreState{}, peer.Server{Colo: "ams", Node: "ams-1", Address: "h:1", Boot: "x", Protocol: 4})
	at("another process", named(known, "y"), fleet.StoreState{}, peer.Server{Colo: "ams", Node: "ams-1", Address: known, Boot: "y", Protocol: 4})
	at("an unknown process", named(known, ""), fleet.StoreState{}, peer.Server{Colo: "ams", Node: "ams-1", Address: known, Boot: "x", Protocol: 1})
	at("a newer table", named("h:1", "y"), fleet.StoreState{Listed: 9}, peer.Server{Colo: "ams", Node: "ams-1", Address: known, Boot: "x", Protocol: 1})
	f("gone, with an address", hop.Verdict{To: "ams-2", Address: "h:1", Revision: 9}, fleet.StoreState{Listed: 9}, time.Minute, 0, false)
	f("none is named", hop.Verdict{Revision: 9}, fleet.StoreState{}, time.Minute, 0, false)
	f("known", hop.Verdict{To: "ams-1", Revision: 9}, fleet.StoreState{}, time.Minute, 0, true)
	f("of another colo", hop.Verdict{To: "fra-1", Revision: 9}, fleet.StoreState{Listed: 9}, time.Minute, 0, false)
	f("not known", hop.Verdict{To: "ams-2", Revision: 9}, fleet.StoreState{Listed: 8}, time.Minute, time.Second, false)
	f("gone, by a list", hop.Verdict{To: "ams-2", Revision: 9}, fleet.StoreState{Listed: 9}, time.Minute, 0, false)
	f("gone, by a change", hop.Verdict{To: "ams-2", Revision: 9}, fleet.StoreState{ServersChanged: map[string]int64{"ams": 9}}, time.Minute, 0, false)
	f("a client that leaves", hop.Verdict{To: "ams-2", Revision: 9}, fleet.StoreState{}, 15*time.Millisecond, 15*time.Millisecond, false)
}

// A request whose time is over when its server is given up ends for that.
func TestSilentServerOfALateRequest(t *testing.T) {
	t.Parallel()
	_, e := startEntryWith(t, Config{Table: tableFunc(tableOf(t, "key: models/m\n"))}, t.TempDir())
	f := func(total, firstByte time.Duration, reason string) {
		t.Helper()
		c := &call{Request: e.inflight.Begin(), entry: e, attempts: lineAttempts(2, "ams"), deadline: time.Now().Add(total)}
		defer c.Close()
		if firstByte > 0 {
			c.firstByteDeadline = time.Now().Add(firstByte)
		}
		at, _ := c.attempts.next()
		c.failedForward(at, peer.ErrSilent)
		switch next, ok := c.attempts.next(); {
		case reason == "" && (!ok || next.server().Node != "ams-2"):
			t.Errorf("does not go on: %+v", next)
		case reason != "" && (ok || c.attempts.clientError().Reason != reason || c.attempts.clientError().Status != 504):
			t.Errorf("got %+v, %+v; want %s", next, c.attempts.clientError(), reason)
		}
	}
	f(time.Hour, 0, "")
	f(time.Hour, time.Hour, "")
	f(time.Hour, reservedForReturn, reasons.FirstByteTimeout)
	f(0, time.Hour, reasons.TotalTimeout)
}

// A request that could not be sent for a fault of this process says nothing about the server, so the next in line is not asked in its place.
func TestFaultOfTheEntryIsNoSilence(t *testing.T) {
	t.Parallel()
	_, e := startEntryWith(t, Config{Table: tableFunc(tableOf(t, "key: models/m\n"))}, t.TempDir())
	f := func(err error, node string, unanswered ...string) {
		t.Helper()
		c := &call{Request: e.inflight.Begin(), entry: e, attempts: lineAttempts(2, "ams", "fra"), deadline: time.Now().Add(time.Hour)}
		defer c.Close()
		at, _ := c.attempts.next()
		c.failedForward(at, &transport.ExchangeError{Phase: transport.PhaseConnect, Err: err})
		expectAttempt(t, c.attempts, node, unanswered...)
	}
	f(peer.ErrNotSigned, "fra-1")
	f(fmt.Errorf("dial: %w", syscall.EMFILE), "fra-1")
	f(errors.New("connection refused"), "ams-2", "ams-1")
}
