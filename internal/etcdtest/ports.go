package etcdtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Ports are given away in blocks, below those that the kernel gives away by itself.
const (
	firstPort = 12000
	blocks    = 100
	blockSize = 200
)

// block is a range of ports that no other test process gives away while this one lives: whoever listens on the first of
// them has the others.
type block struct {
	guard net.Listener
	first int
	given atomic.Int64
}

var own = sync.OnceValues(claim)

func claim() (*block, error) {
	for _, n := range rand.Perm(blocks) {
		first := firstPort + n*blockSize
		if guard, err := listen(first); err == nil {
			return &block{guard: guard, first: first + 1}, nil
		}
	}
	return nil, errors.New("all blocks of ports are taken")
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

// next returns an address that it has not returned for as long as possible, since a server that is stopped may want its own
// back.
func (b *block) next() (string, error) {
	const n = blockSize - 1
	for range n {
		port := b.first + int((b.given.Add(1)-1)%n)
		if listener, err := listen(port); err == nil {
			defer listener.Close()
			return listener.Addr().String(), nil
		}
	}
	return "", errors.New("no port is free")
}

// FreeAddress returns a loopback address of this process's own, for processes that cannot listen on port 0: etcd must know
// beforehand what to advertise. Nobody else is given it, so that it stays free, also while a server is stopped.
func FreeAddress(t testing.TB) string {
	t.Helper()
	b, err := own()
	if err != nil {
		t.Fatal(err)
	}
	address, err := b.next()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
