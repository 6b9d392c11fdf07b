// Package etcdtest runs real etcd servers for tests, with short ticks and without fsync, on loopback ports of their own.
//
// A [Server] runs inside the test and is ready in about a tenth of a second. It can be stopped, and started again on the same
// port with the same or other data. A [Process] is a member of a cluster in a process of its own, which can be killed or
// stopped (SIGSTOP) at any moment.
package etcdtest

import (
	"net/url"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"colonnade/internal/faultproxy"
)

const startTimeout = time.Minute

// Server is an etcd of one member.
type Server struct {
	Address string // host:port where clients connect

	client, peer string // addresses of etcd itself
	dir          string
	etcd         *embed.Etcd       // nil while stopped
	proxy        *faultproxy.Proxy // in front of etcd, so that Stop can end all connections at once
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{Address: FreeAddress(t), client: FreeAddress(t), peer: FreeAddress(t), dir: t.TempDir()}
	t.Cleanup(s.Stop)
	s.Restart(t)
	return s
}

// Stop stops the server as a crash would. A Close of etcd alone waits up to five seconds for watches to end.
func (s *Server) Stop() {
	if s.etcd != nil {
		s.proxy.Close()
		s.etcd.Server.HardStop()
		s.etcd.Close()
		s.etcd = nil
	}
}

// Restart starts the server again after Stop, with its data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	etcd, err := embed.StartEtcd(s.config())
	if err != nil {
		t.Fatalf("cannot start etcd: %v", err)
	}
	s.etcd = etcd
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(startTimeout):
		t.Fatal("etcd is not ready")
	}
	if s.proxy, err = faultproxy.Listen(s.Address, s.client); err != nil {
		s.etcd.Close()
		s.etcd = nil
		t.Fatal(err)
	}
}

// Replace starts the server again after Stop, with an empty store whose revisions begin at 1.
func (s *Server) Replace(t testing.TB) {
	t.Helper()
	s.dir = t.TempDir()
	s.Restart(t)
}

func (s *Server) config() *embed.Config {
	c := embed.NewConfig()
	c.Dir = s.dir
	c.TickMs, c.ElectionMs = 10, 100
	c.UnsafeNoFsync = true
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	c.ListenClientUrls = []url.URL{{Scheme: "http", Host: s.client}}
	c.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: s.Address}}
	c.ListenPeerUrls = []url.URL{{Scheme: "http", Host: s.peer}}
	c.AdvertisePeerUrls = c.ListenPeerUrls
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	return c
}

// Client returns a client with the library's settings, which is closed with the test.
func (s *Server) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return newClient(t, s.Address)
}
