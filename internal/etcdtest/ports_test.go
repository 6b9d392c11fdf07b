package etcdtest

import "testing"

// Two processes have two blocks, so that an address which is free is not given away twice before somebody listens there.
func TestAddressIsGivenAwayOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		b, err := claim()
		if err != nil {
			t.Fatal(err)
		}
		defer b.guard.Close()
		for range blockSize - 20 { // others may listen on a few
			address, err := b.next()
			if err != nil {
				t.Fatal(err)
			}
			if seen[address] {
				t.Fatalf("%s is given away twice", address)
			}
			seen[address] = true
		}
	}
}
