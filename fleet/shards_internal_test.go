package fleet

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A change of a builder, or of its clone, is in no earlier shards, and shards without a change are shared.
func TestShardsAreCopiedOnWrite(t *testing.T) {
	var b shardsBuilder[string, int]
	b.own(1)["a"], b.own(1)["b"], b.own(2)["c"] = 1, 2, 3
	before := b.share()
	clone := b
	b.own(1)["a"] = 10
	b.own(1)["d"] = 4 // its own by now
	delete(clone.own(1), "b")
	after, other := b.share(), clone.share()
	want := func(what string, got shards[string, int], one map[string]int) {
		t.Helper()
		if !reflect.DeepEqual(got[1], one) || !reflect.DeepEqual(got[2], map[string]int{"c": 3}) {
			t.Errorf("%s: %v %v, want %v", what, got[1], got[2], one)
		}
		if reflect.ValueOf(got[2]).Pointer() != reflect.ValueOf(before[2]).Pointer() {
			t.Errorf("%s: a shard without a change was copied", what)
		}
	}
	want("before", before, map[string]int{"a": 1, "b": 2})
	want("after", after, map[string]int{"a": 10, "b": 2, "d": 4})
	want("clone", other, map[string]int{"a": 1})
}

// Indexes of accounts stay as they are while their builder and its clone go on.
func TestAccountIndexesStay(t *testing.T) {
	names := func(x *AccountIndex) (all []string) {
		for _, a := range x.list {
			if found, ok := x.find(a.Name); !ok || found != a {
				t.Errorf("%s is listed and not found", a.Name)
			}
			all = append(all, a.Name)
		}
		return all
	}
	var b AccountIndexBuilder
	b.Put(&Account{Name: "b"})
	b.Put(&Account{Name: "a"})
	before := b.Index()
	b.Put(&Account{Name: "d"})
	clone := b.Clone() // with a change that is in no index yet
	b.Put(&Account{Name: "c"})
	clone.Remove("b")
	clone.Remove("none")
	after, other := b.Index(), clone.Index()
	for want, x := range map[string]*AccountIndex{"ab": &before, "abcd": &after, "ad": &other} {
		if got := names(x); !slices.Equal(got, strings.Split(want, "")) {
			t.Errorf("accounts %v, want %s", got, want)
		}
	}
	if _, found := before.find("c"); found {
		t.Error("an account is in an index from before it was put")
	}
}
