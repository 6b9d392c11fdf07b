package sinks

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// commonSettings returns the settings that all sinks have.
func commonSettings() []string {
	return []string{"name", "kinds", "accounts", "batch_events", "batch_bytes", "every", "compression", "credential"}
}

// takeSettings moves the settings that all sinks have from Params to their fields, and refuses unknown ones.
func (s *Spec) takeSettings() error {
	if err := s.checkSettingNames(); err != nil {
		return err
	}
	take := func(name, otherwise string) string {
		value := s.Param(name, otherwise)
		delete(s.Params, name)
		return value
	}
	s.Name = take("name", s.defaultName())
	s.Kinds, s.Accounts = list(take("kinds", "")), list(take("accounts", ""))
	s.Compression, s.Credential = take("compression", s.Scheme.Compression), take("credential", "")
	var err error
	if s.BatchEvents, err = s.number("batch_events", take("batch_events", ""), 1, MaxBatchEvents); err != nil {
		return err
	}
	if s.BatchBytes, err = s.number("batch_bytes", take("batch_bytes", ""), 1024, s.maxBytes()); err != nil {
		return err
	}
	every := take("every", s.orDefault("every"))
	if s.Every, err = time.ParseDuration(every); err != nil || s.Every < 10*time.Millisecond || s.Every > MaxEvery {
		return fmt.Errorf("every=%s: must be a duration from 10ms to %s, such as 1s", every, MaxEvery)
	}
	return s.checkValues()
}

func (s *Spec) checkSettingNames() error {
	known := append(commonSettings(), s.Scheme.Params...)
	if s.Scheme.Compression == "" {
		known = slices.DeleteFunc(known, func(name string) bool { return name == "compression" })
	}
	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("unknown setting %q: sinks of the scheme %s have %s", name, s.Scheme.Name, strings.Join(known, ", "))
		}
	}
	return nil
}

func (s *Spec) checkValues() error {
	if !validName.MatchString(s.Name) {
		return fmt.Errorf("name=%s: must be letters, digits, dots, underscores and hyphens, at most 63, since it is part of a file name", s.Name)
	}
	for _, kind := range s.Kinds {
		if !slices.Contains(eventKinds(), kind) {
			return fmt.Errorf("kinds=%s: unknown kind %q: use %s, separated by commas", strings.Join(s.Kinds, ","), kind, strings.Join(eventKinds(), ", "))
		}
	}
	if s.Scheme.Compression != "" && !slices.Contains([]string{"none", "gzip", "zstd"}, s.Compression) {
		return fmt.Errorf("compression=%s: must be none, gzip or zstd", s.Compression)
	}
	if s.Credential != "" && !validCredential.MatchString(s.Credential) {
		return fmt.Errorf("credential: must be env:NAME, with the name of an environment variable, or file:PATH; the credential itself never stands here")
	}
	return checkAuth(s.Params["auth"], s.Credential != "")
}

// eventKinds returns the kinds of events, as package analytics has them.
func eventKinds() []string { return []string{"inference", "request", "forward", "engine"} }

var validCredential = regexp.MustCompile(`^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$`)

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func (s *Spec) maxBytes() int {
	if s.Scheme.MaxBytes > 0 {
		return s.Scheme.MaxBytes
	}
	return MaxBatchBytes
}

// orDefault returns the default of a setting, as text.
func (s *Spec) orDefault(name string) string {
	pick := func(own, common int) string {
		if own > 0 {
			return strconv.Itoa(own)
		}
		return strconv.Itoa(common)
	}
	switch name {
	case "batch_events":
		return pick(s.Scheme.BatchEvents, DefaultBatchEvents)
	case "batch_bytes":
		return pick(s.Scheme.BatchBytes, DefaultBatchBytes)
	}
	if s.Scheme.Every > 0 {
		return s.Scheme.Every.String()
	}
	return DefaultEvery.String()
}

// number reads a number, which may have one of the units KiB and MiB.
func (s *Spec) number(name, text string, least, most int) (int, error) {
	if text == "" {
		text = s.orDefault(name)
	}
	digits, unit := text, 1
	for suffix, size := range map[string]int{"KiB": 1 << 10, "MiB": 1 << 20} {
		if cut, ok := strings.CutSuffix(text, suffix); ok {
			digits, unit = cut, size
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n > most/unit || n*unit < least {
		return 0, fmt.Errorf("%s=%s: must be a number from %d to %d", name, text, least, most)
	}
	return n * unit, nil
}

// Number returns a setting of the scheme that is a number, such as 5, 64KiB or 1MiB.
func (s *Spec) Number(name string, otherwise, least, most int) (int, error) {
	return s.number(name, s.Param(name, strconv.Itoa(otherwise)), least, most)
}
