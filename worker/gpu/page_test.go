package gpu

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"colonnade/internal/docpage"
)

// The table of Xids on the page is the one that decides.
func TestPageListsXids(t *testing.T) {
	var rows [][]string
	for _, number := range slices.Sorted(maps.Keys(xids)) {
		x := xids[number]
		engine := "goes on"
		if x.action.out() {
			engine = "is out: " + x.action.needs()
		}
		rows = append(rows, []string{strconv.FormatUint(number, 10), x.name, engine})
	}
	docpage.Check(t, "docs/gpus.md", map[string]string{"xids": docpage.Table([]string{"Xid", "name", "the engine"}, rows)})
}
