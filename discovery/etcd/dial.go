package etcd

import (
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// Client is the library's, for those who only pass one on.
type Client = clientv3.Client

// Dial makes a client that leaves dead connections soon: the library's own settings keep one for many minutes, and wait
// up to two minutes before they try again. When packets pass again, at most three seconds are left of an attempt that
// was lost, and little more than one until the next; so a watcher, which waits no longer than that itself, has
// converged within five. It does not wait for a connection. The caller closes the client.
func Dial(endpoints []string) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		DialKeepAliveTime:    10 * time.Second, // gRPC allows no less
		DialKeepAliveTimeout: 3 * time.Second,  // also how long sent bytes may stay without an acknowledgement
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 3 * time.Second,
		})},
		Logger: zap.NewNop(), // what matters comes back as an error
	})
	if err != nil {
		return nil, fmt.Errorf("cannot use etcd at %q: %w", endpoints, err)
	}
	return client, nil
}
