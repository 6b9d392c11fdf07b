package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/memberlist"
)

// checkKeys refuses what the library would accept: no key, or one of another size.
func checkKeys(keys [][]byte) error {
	if len(keys) == 0 {
		return errors.New("no key for gossip: without one, any process could take part")
	}
	for i, key := range keys {
		if len(key) != KeySize {
			return fmt.Errorf("gossip key %d has %d bytes: it must have %d", i+1, len(key), KeySize)
		}
	}
	return nil
}

// newKeyring returns keys that were checked in the form of the library.
func newKeyring(keys [][]byte) *memberlist.Keyring {
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		panic("gossip: " + err.Error()) // only of a size that checkKeys refuses
	}
	return ring
}

// ReplaceKeys puts keys as those of [Config] in force for all further messages. It must not be called concurrently. After an error,
// the keys are as before, or both these and those before are accepted.
func (g *Gossip) ReplaceKeys(keys [][]byte) error {
	if g == nil {
		return nil
	}
	err := checkKeys(keys)
	if err == nil {
		err = replaceKeys(g.keyring, keys)
	}
	if err != nil {
		return fmt.Errorf("cannot replace the keys of gossip: %w", err)
	}
	return nil
}

// replaceKeys adds before it removes. The library removes a key by moving those behind it in a slice that readers may have, so only the
// last one is ever removed, and what was wanted of those behind is added again.
func replaceKeys(ring *memberlist.Keyring, keys [][]byte) error {
	add := func() error {
		for _, key := range keys {
			if err := ring.AddKey(key); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(); err != nil {
		return err
	}
	if err := ring.UseKey(keys[0]); err != nil {
		return err
	}
	unwanted := func(key []byte) bool {
		return !slices.ContainsFunc(keys, func(wanted []byte) bool { return bytes.Equal(wanted, key) })
	}
	for all := ring.GetKeys(); slices.ContainsFunc(all, unwanted); all = ring.GetKeys() {
		if err := ring.RemoveKey(all[len(all)-1]); err != nil {
			return err
		}
	}
	return add()
}
