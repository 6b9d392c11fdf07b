package etcd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/internal/testkit"
)

// savedLease returns a path for the file of a lease.
func savedLease(t *testing.T) string { return filepath.Join(t.TempDir(), "lease.json") }

// quickly registers, and fails the test if that took as long as a lease lasts.
func (s *store) quickly(r etcd.Registration) *etcd.Lease {
	s.t.Helper()
	began := time.Now()
	l := s.register(r)
	if took := time.Since(began); took > r.TTL/2 {
		s.t.Errorf("registering took %v, as if it had waited for a lease of %v to run out", took, r.TTL)
	}
	return l
}

// A node that was killed registers at once when it comes back under its old name.
func TestTakeoverAfterKill(t *testing.T) {
	s := start(t)
	r := s.registration("servers/ams/a")
	r.TTL, r.SavedLease = time.Minute, savedLease(t)
	if l := s.register(r); l.AfterCrash() { // and never renewed: killed
		t.Error("the first run reports a crash before it")
	}
	killed := s.get("servers/ams/a")
	if info, err := os.Stat(r.SavedLease); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("file %v, %v", info, err)
	}
	r.Value = []byte(`{"address":"10.0.0.1:8443","boot":"b2"}`)
	l := s.quickly(r)
	if !l.AfterCrash() {
		t.Error("the second run reports no crash before it")
	}
	if kv := s.get("servers/ams/a"); kv == nil || string(kv.Value) != string(r.Value) || kv.Lease == killed.Lease {
		t.Errorf("registered %+v", kv)
	}
	leases, err := s.client.Leases(s.ctx())
	if err != nil || len(leases.Leases) != 1 {
		t.Errorf("leases %+v, %v", leases, err)
	}

	// So it does when it comes back in another colo.
	other := r
	other.Key = "servers/fra/a"
	stop := run(t, s.quickly(other).Run)
	if s.get("servers/ams/a") != nil {
		t.Error("the registration of the earlier run is still there")
	}

	// A node that leaves removes the file.
	stop()
	if _, err := os.Stat(r.SavedLease); !os.IsNotExist(err) {
		t.Errorf("the file after the end: %v", err)
	}
	if s.quickly(r).AfterCrash() {
		t.Error("the run after one that left reports a crash")
	}
}

// The registrations of other nodes are never ended: by a lease under which the key does not stand, or a file that cannot be read.
func TestTakeoverEndsNoOtherRegistration(t *testing.T) {
	s := start(t)
	lives := s.registration("servers/ams/a")
	run(t, s.register(lives).Run)
	standing := s.get("servers/ams/a")
	elsewhere := s.registration("servers/fra/b")
	elsewhere.TTL = time.Minute
	s.register(elsewhere)
	other := s.get("servers/fra/b")
	file := func(key string, lease int64) string { return fmt.Sprintf(`{"key":%q,"lease":%d}`, prefix+key, lease) }
	contents := []string{
		file("servers/ams/a", standing.Lease+1),
		file("servers/ams/a", other.Lease), // a lease that lives, but another key stands under it
		file("servers/ams/a", 0),
		file("servers/none/a", standing.Lease),
		`{"key":`,
		"",
	}
	errs := make(chan error)
	for _, content := range contents {
		r := lives
		r.SavedLease = savedLease(t)
		if err := os.WriteFile(r.SavedLease, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := s.tryRegister(r)
			errs <- err
		}()
	}
	for range contents {
		wantTaken(t, <-errs, "servers/ams/a")
	}
	if kv := s.get("servers/ams/a"); kv == nil || kv.Lease != standing.Lease || kv.CreateRevision != standing.CreateRevision {
		t.Errorf("the registration was changed: %+v", kv)
	}
	if kv := s.get("servers/fra/b"); kv == nil || kv.Lease != other.Lease {
		t.Errorf("the registration was changed: %+v", kv)
	}
}

// A key that an operator put has no lease, and no file makes it ours.
func TestTakeoverOfKeyWithoutLease(t *testing.T) {
	s := start(t)
	s.put("servers/ams/a", "{}")
	r := s.registration("servers/ams/a")
	r.SavedLease = savedLease(t)
	if err := os.WriteFile(r.SavedLease, []byte(`{"key":"`+prefix+`servers/ams/a","lease":0}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.tryRegister(r)
	wantTaken(t, err, "servers/ams/a", "has no lease")
}

// A run that could not register has not served, so it leaves no file; but the file of an earlier run that did not leave stays.
func TestSavedLeaseAfterFailedRegistration(t *testing.T) {
	s := start(t)
	r := s.registration("servers/ams/a")
	r.SavedLease = savedLease(t)
	good := r.Value
	r.Value = make([]byte, 1800<<10) // etcd refuses it
	if _, err := etcd.Register(s.ctx(), r); err == nil {
		t.Fatal("it is registered")
	}
	if _, err := os.Stat(r.SavedLease); !os.IsNotExist(err) {
		t.Errorf("the file of a lease without a key: %v", err)
	}
	if etcd.NewLease(r).AfterCrash() {
		t.Error("the next run reports a crash")
	}

	crashed := r
	crashed.Value = good
	s.register(crashed)
	if _, err := etcd.Register(s.ctx(), r); err == nil {
		t.Fatal("it is registered")
	}
	if !etcd.NewLease(r).AfterCrash() {
		t.Error("the crash is not reported any more")
	}
}

// A node that cannot write its directory registers all the same.
func TestRegisterWithoutSavingLease(t *testing.T) {
	s := start(t)
	r := s.registration("entries/a")
	var log logbook
	r.SavedLease, r.Logger = filepath.Join(t.TempDir(), "missing", "lease.json"), log.logger()
	run(t, s.register(r).Run)
	if s.get("entries/a") == nil || log.count("cannot save the lease") != 1 {
		t.Error("not registered, or not logged")
	}
}

// A run that starts while etcd is away ends its predecessor's registration when it is back.
func TestTakeoverAfterOutage(t *testing.T) {
	s := start(t)
	r := s.registration("servers/ams/a")
	r.TTL, r.SavedLease, r.Client = time.Minute, savedLease(t), dial(t, s.Address)
	s.register(r)
	killed := s.get("servers/ams/a")
	s.Stop()
	l := etcd.NewLease(r)
	if !l.AfterCrash() {
		t.Error("it reports no crash")
	}
	r.TTL = ttl
	run(t, l.Run)
	s.Restart(t)
	testkit.WaitFor(t, "registered", func() bool { kv := s.get("servers/ams/a"); return kv != nil && kv.Lease != killed.Lease })
}
