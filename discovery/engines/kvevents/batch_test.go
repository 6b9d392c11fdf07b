package kvevents_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"colonnade/discovery/engines/kvevents"
)

// bytesOf decodes hex digits with spaces.
func bytesOf(t testing.TB, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func text(s string) string { return hex.EncodeToString(append([]byte{0xa0 | byte(len(s))}, s...)) }

const when = "cb 41d9000000000000"

// Batches in the forms that engines write, each encoded with msgspec and shortened.
var (
	list = "93" + when + "93" +
		"98" + text("BlockStored") + "92 cf0102030405060708 c403 aabbcc c0 92 01 cd0102 10 c0" + text("GPU") + "c0" +
		"93" + text("BlockRemoved") + "91 05" + text("GPU") +
		"93" + text("BlockRemoved") + "92 05 06" + text("CPU") + "00"
	mapped = "83" + text("ts") + when + text("events") + "92" +
		"84" + text("type") + text("BlockStored") + text("block_size") + "20" + text("block_hashes") + "91 01" + text("other") + "81 01 c3" +
		"83" + text("type") + text("BlockStored") + text("block_hashes") + "91 01" + text("group_idx") + "01" +
		text("data_parallel_rank") + "c0"
	cleared = "92" + when + "93" + "95" + text("BlockStored") + "91 01 c0 90 10" +
		"91" + text("AllBlocksCleared") + "92" + text("BlockRemoved") + "91 01"
)

func TestParse(t *testing.T) {
	f := func(digits string, want kvevents.Batch, ok bool) {
		t.Helper()
		got, err := kvevents.Parse(bytesOf(t, digits))
		if got != want || (err == nil) != ok {
			t.Errorf("%s: %+v, %v, want %+v", digits, got, err, want)
		}
	}
	f(list, kvevents.Batch{Stored: 2, Removed: 1, BlockTokens: 16, Events: 3}, true)
	f(mapped, kvevents.Batch{Stored: 1, BlockTokens: 32, Events: 2}, true)
	f(cleared, kvevents.Batch{Cleared: true, Removed: 1, BlockTokens: 16, Events: 3}, true)
	f("92"+when+"90", kvevents.Batch{}, true)
	f("92"+when+"91 92"+text("Unknown")+"82 01 02 03 94 01 02 03 04", kvevents.Batch{Events: 1}, true)
	f("", kvevents.Batch{}, false)
	f("01", kvevents.Batch{}, false)
	f("91"+when, kvevents.Batch{}, false)
	f("92"+when+"9000", kvevents.Batch{}, false)
	f("92"+when+"dd ffffffff", kvevents.Batch{}, false)
	f("92"+when+"91 95"+text("BlockStored")+"dd ffffffff 01", kvevents.Batch{}, false)
}

func FuzzParse(f *testing.F) {
	for _, digits := range []string{list, mapped, cleared, "c1"} {
		f.Add(bytesOf(f, digits))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, _ := kvevents.Parse(b)
		if got.Stored < 0 || got.Removed < 0 || got.Stored+got.Removed+got.Events > len(b) || got.BlockTokens < 0 || got.BlockTokens > 1<<16 {
			t.Errorf("%x: %+v", b, got)
		}
	})
}

func TestParseAllocatesOnlyNames(t *testing.T) {
	b := bytesOf(t, list)
	if n := testing.AllocsPerRun(100, func() { _, _ = kvevents.Parse(b) }); n > 3 { // the names of the three events
		t.Errorf("%v allocations", n)
	}
}
