package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"colonnade/fleet/document"
	"colonnade/internal/ctxtime"
)

// errChangedMeanwhile says that the files have changed between the moments at which they were read and replaced.
var errChangedMeanwhile = errors.New("the files have changed meanwhile")

// Edit changes the documents in a file, or in the files of a directory, and returns them as they stand then. change gets all documents,
// good or bad, but for those that cannot be read at all, and returns what is to stand there: a document whose File and Line are kept
// replaces what stood there, one that is left out is removed, and one with Line 0 is new. Its File may be empty: see place. change may be
// called several times, and its error is returned.
//
// All documents are checked before anything is written, also those that were there before; what a Watcher would refuse is an error. The
// text of documents that do not change is kept byte for byte. A file is replaced in one step, after its content is on the disk, at the
// target of a symbolic link, and keeps its mode and owner; a new one has the mode 0600. Several files are replaced one after the other.
//
// Edits exclude each other, also those of other processes of the machine, by a lock (flock) on the directories of the files; ctx bounds
// the wait for it. After a change by a program that does not take the lock, such as an editor, Edit starts again.
func Edit(ctx context.Context, path string, change func([]Located) ([]Located, error)) ([]Located, error) {
	for {
		after, err := editOnce(ctx, path, change)
		if !errors.Is(err, errChangedMeanwhile) {
			return after, err
		}
		if !ctxtime.Sleep(ctx, lockInterval) {
			return nil, fmt.Errorf("cannot change %s: another program changes it all the time: %w", path, ctx.Err())
		}
	}
}

func editOnce(ctx context.Context, path string, change func([]Located) ([]Located, error)) ([]Located, error) {
	listed, err := readSources(path)
	if err != nil {
		return nil, err
	}
	dirs, err := directories(path, listed)
	if err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, dirs)
	if err != nil {
		return nil, err
	}
	defer unlock()
	before, err := readSources(path)
	if err != nil {
		return nil, err
	}
	e, err := newEdit(path, before)
	if err != nil {
		return nil, err
	}
	wanted, err := change(slices.Clone(e.docs))
	if err != nil {
		return nil, err
	}
	changed, err := e.apply(wanted)
	if err != nil {
		return nil, err
	}
	after, err := parse(e.sources())
	if err != nil {
		return nil, fmt.Errorf("nothing was changed:\n%w", err)
	}
	return after, replace(changed, dirs, func() error { return e.checkUnchanged(before) })
}

// edit is a change of the files of a path.
type edit struct {
	path   string
	isFile bool
	sheets []sheet
	docs   []Located
}

// newEdit splits files into documents.
func newEdit(path string, sources []source) (*edit, error) {
	e := &edit{path: path, isFile: len(sources) == 1 && sources[0].file == path}
	for _, s := range sources {
		parts, err := document.SplitParts(s.data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.file, err)
		}
		e.sheets = append(e.sheets, sheet{source: s, parts: parts})
		for _, p := range parts {
			if p.Key != "" {
				e.docs = append(e.docs, Located{Raw: p.Raw, File: s.file, Line: p.Line})
			}
		}
	}
	return e, nil
}

// apply changes the texts of the sheets, and returns the files to replace.
func (e *edit) apply(wanted []Located) ([]replacement, error) {
	byFile := map[string][]Located{}
	for _, d := range wanted {
		if d.File == "" {
			d.File, d.Line = e.place(d.Key), 0
		}
		byFile[d.File] = append(byFile[d.File], d)
	}
	for file := range byFile {
		if !slices.ContainsFunc(e.sheets, func(s sheet) bool { return s.file == file }) {
			e.sheets = append(e.sheets, sheet{source: source{file: file}})
		}
	}
	var changed []replacement
	for i := range e.sheets {
		s := &e.sheets[i]
		text, err := s.rewrite(byFile[s.file])
		if err != nil {
			return nil, fmt.Errorf("nothing was changed: %s: %w", s.file, err)
		}
		if s.info == nil || !bytes.Equal(text, s.data) {
			changed = append(changed, replacement{file: s.file, old: s.info, text: text})
		}
		s.data = text
	}
	slices.SortFunc(e.sheets, func(a, b sheet) int { return compareFiles(a.source, b.source) })
	return changed, nil
}

// sources returns the files with their new texts.
func (e *edit) sources() []source {
	var all []source
	for _, s := range e.sheets {
		all = append(all, s.source)
	}
	return all
}

// checkUnchanged returns errChangedMeanwhile unless the files are as they were read.
func (e *edit) checkUnchanged(before []source) error {
	now, err := readSources(e.path)
	if err != nil || !slices.EqualFunc(before, now, func(a, b source) bool { return a.file == b.file && bytes.Equal(a.data, b.data) }) {
		return errChangedMeanwhile
	}
	return nil
}
