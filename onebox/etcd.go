package onebox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	discovery "colonnade/discovery/etcd"
)

// defaultEtcd is the address where operators expect an etcd.
const defaultEtcd = "127.0.0.1:2379"

// startEtcd starts the embedded etcd, unless the fleet uses another one, and connects to it.
func (b *allInOne) startEtcd(ctx context.Context) error {
	b.fleet.Etcd = b.config.EtcdURL
	if b.fleet.Etcd == "" {
		if err := b.embedEtcd(ctx); err != nil {
			return err
		}
	}
	var err error
	if b.fleet.client, err = discovery.Dial([]string{b.fleet.Etcd}); err != nil {
		return err
	}
	b.teardown = append(b.teardown, b.fleet.client.Close)
	return nil
}

// embedEtcd starts an etcd in this process.
func (b *allInOne) embedEtcd(ctx context.Context) error {
	server, err := b.listenAsEtcd()
	for range 4 { // another process may have taken a free port before etcd listened on it
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		server, err = b.listenAsEtcd()
	}
	if err != nil {
		return err
	}
	b.teardown = append(b.teardown, func() error { server.Close(); return nil })
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return fmt.Errorf("etcd ended: %w", err)
	case <-time.After(15 * time.Second):
		return errors.New("etcd is not ready after 15 s")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b.fleet.Etcd = server.Config().ListenClientUrls[0].String()
	return nil
}

// listenAsEtcd starts an etcd, which may not be ready yet. Its ticks are short, so that it soon is: it has one member, on this machine.
func (b *allInOne) listenAsEtcd() (*embed.Etcd, error) {
	address, err := b.etcdAddress()
	if err != nil {
		return nil, err
	}
	config := embed.NewConfig()
	config.Dir = filepath.Join(b.fleet.Dir, "etcd")
	config.Logger, config.ZapLoggerBuilder = "zap", embed.NewZapLoggerBuilder(zap.NewNop())
	config.LogLevel = "panic"
	client := url.URL{Scheme: "http", Host: address}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.TickMs, config.ElectionMs = 10, 100
	// By default any page that a browser of this machine shows could write documents, and read etcd's answers.
	config.EnableGRPCGateway, config.CORS = false, map[string]struct{}{client.String(): {}}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("cannot start etcd on %s: %w", address, err)
	}
	return server, nil
}

// etcdAddress returns the configured address, else the default one, or a free one if that is taken.
func (b *allInOne) etcdAddress() (string, error) {
	address := b.config.Etcd
	if address == "" {
		address = defaultEtcd
	}
	ln, err := net.Listen("tcp", address)
	if err != nil && b.config.Etcd == "" {
		b.progress(fmt.Sprintf("port %s is taken: etcd takes a free one", defaultEtcd))
		ln, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return "", fmt.Errorf("cannot listen for etcd: %w", err)
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}
