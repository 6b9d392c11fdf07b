package etcdtest

import "testing"

// Two processes have two blocks, so that no address is returned twice before a server listens there.
func TestAddressIsReturnedOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		b, err := reserveBlock()
		if err != nil {
			t.Fatal(err)
		}
		defer b.guard.Close()
		for range blockSize - 20 { // other programs may listen on a few
			address, err := b.next()
			if err != nil {
				t.Fatal(err)
			}
			if seen[address] {
				t.Fatalf("%s was returned twice", address)
			}
			seen[address] = true
		}
	}
}
