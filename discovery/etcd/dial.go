package etcd

import (
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// Client is the library's, for packages that only pass one on.
type Client = clientv3.Client

// Dial makes a client that gives up dead connections soon: the library's own settings keep one for many minutes, and wait up
// to two minutes before they try again. When packets pass again, a lost attempt lasts three seconds more at most, and the next
// one begins little more than a second later; with the watcher's own back-off, a watcher has converged within five seconds.
// Dial does not wait for a connection. The caller closes the client.
func Dial(endpoints []string) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		DialKeepAliveTime:    10 * time.Second, // gRPC allows no less
		DialKeepAliveTimeout: 3 * time.Second,  // also how long sent bytes may stay without an acknowledgement
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 3 * time.Second,
		})},
		Logger: zap.NewNop(), // errors are returned
	})
	if err != nil {
		return nil, fmt.Errorf("cannot use etcd at %q: %w", endpoints, err)
	}
	return client, nil
}
