package keeper

import (
	"maps"
	"slices"
	"strings"

	"colonnade/fleet"
	"colonnade/homes"
)

// UnknownEngines are engines that an orphaned record names and no endpoint of the table has: what runs on them is counted nowhere.
type UnknownEngines struct {
	Process homes.Process
	URLs    []string // sorted
}

// UnknownEngines returns the engines of orphaned records that the table does not have, by process.
func (k *Keeper) UnknownEngines() []UnknownEngines {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.unknown), func(a, b UnknownEngines) int {
		return strings.Compare(a.Process.String(), b.Process.String())
	})
}

// updateUnknownLocked looks for engines of orphaned records that the table does not have, and logs those of each record once.
func (k *Keeper) updateUnknownLocked(table *fleet.Table, orphaned func(homes.Process) bool) {
	endpoints := table.EndpointsOf(k.config.Colo)
	if len(endpoints) == 0 {
		return // there may be no table yet
	}
	var known map[string]bool // made for the first orphaned record
	found := map[homes.Process]UnknownEngines{}
	for _, r := range k.ownership.Records() {
		if !orphaned(r.Process) {
			continue
		}
		if known == nil {
			known = map[string]bool{}
			for _, e := range endpoints {
				known[e.URL] = true
			}
		}
		urls := slices.Concat(slices.Collect(maps.Keys(r.Owns)), slices.Collect(maps.Keys(r.Held)))
		urls = slices.DeleteFunc(urls, func(url string) bool { return known[url] })
		slices.Sort(urls)
		if urls = slices.Compact(urls); len(urls) == 0 {
			continue
		}
		found[r.Process] = UnknownEngines{Process: r.Process, URLs: urls}
		if _, logged := k.unknown[r.Process]; !logged {
			k.config.Logger.Warn("record of a process that is not registered names engines that no endpoint has", "process", r.Process, "engines", len(urls), "first", urls[0])
		}
	}
	k.unknown = found
}
