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

// Ports are reserved in blocks, below those that the kernel assigns to listeners on port 0.
const (
	firstPort = 12000
	blocks    = 40
	blockSize = 500 // more than the tests of any package take, since a server that is stopped may want its port back
)

// block is a range of ports that no other test process uses while this one lives: the process that listens on the first port
// of a block owns the others.
type block struct {
	guard net.Listener
	first int
	used  atomic.Int64 // how many were returned
}

// ownBlock returns this process's block.
var ownBlock = sync.OnceValues(reserveBlock)

func reserveBlock() (*block, error) {
	for _, n := range rand.Perm(blocks) {
		first := firstPort + n*blockSize
		if guard, err := listen(first); err == nil {
			return &block{guard: guard, first: first + 1}, nil
		}
	}
	return nil, errors.New("all blocks of ports are reserved")
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

// next returns the free address that it has not returned for the longest time, since a stopped server may want its own back.
func (b *block) next() (string, error) {
	const n = blockSize - 1
	for range n {
		port := b.first + int((b.used.Add(1)-1)%n)
		if listener, err := listen(port); err == nil {
			defer listener.Close()
			return listener.Addr().String(), nil
		}
	}
	return "", errors.New("no port is free")
}

// FreeAddress returns a loopback address for a server that cannot listen on port 0, such as etcd, which must know beforehand
// which address to advertise. No other test gets it, so it stays free while the server is stopped.
func FreeAddress(t testing.TB) string {
	t.Helper()
	b, err := ownBlock()
	if err != nil {
		t.Fatal(err)
	}
	address, err := b.next()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
