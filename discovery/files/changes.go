package files

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// maxListed is how many documents a log line about changes names.
const maxListed = 8

// change is what a load did to a document of a file.
type change struct {
	action string // created, changed or deleted
	key    string
	place  string // FILE:LINE; of a deleted document, where it stood
}

// logChanges logs which documents of files have changed: one line for each action. It is a warning if the last document of a kind has gone.
func logChanges(logger *slog.Logger, changes []change, left map[string]int) {
	for _, action := range []string{"deleted", "changed", "created"} {
		var named []string
		kinds, documents, level := map[string]int{}, 0, slog.LevelInfo
		for _, c := range changes {
			if c.action != action {
				continue
			}
			kinds[kindOf(c.key)]++
			if documents++; documents <= maxListed {
				named = append(named, c.key+" ("+c.place+")")
			}
		}
		if documents == 0 {
			continue
		}
		fields := []any{"documents", documents, "kind", kindText(kinds), "keys", strings.Join(named, ", ")}
		if more := documents - len(named); more > 0 {
			fields = append(fields, "more", more)
		}
		if none := noneLeft(kinds, left); action == "deleted" && none != "" {
			level, fields = slog.LevelWarn, append(fields, "none_left", none)
		}
		logger.Log(context.Background(), level, "documents "+action, fields...) //nolint:sloglint // one of three
	}
}

// kindText returns the kind, or with several, how many documents each has.
func kindText(kinds map[string]int) string {
	sorted := slices.Sorted(maps.Keys(kinds))
	if len(sorted) == 1 {
		return sorted[0]
	}
	var texts []string
	for _, kind := range sorted {
		texts = append(texts, fmt.Sprintf("%s %d", kind, kinds[kind]))
	}
	return strings.Join(texts, ", ")
}

// noneLeft names those of some kinds of which no document is left.
func noneLeft(kinds, left map[string]int) string {
	var none []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if left[kind] == 0 {
			none = append(none, kind)
		}
	}
	return strings.Join(none, ", ")
}

// left returns the number of documents by kind.
func (d *documents) left() map[string]int {
	left := map[string]int{}
	for key := range d.inSet {
		left[kindOf(key)]++
	}
	return left
}
