package worker

import (
	"slices"
	"strings"
)

// withoutSecrets returns a command for people, without the values of arguments that are keys by their names, such as --api-key KEY,
// --hf-token=TOKEN, -e HF_TOKEN=TOKEN and --env=HF_TOKEN=TOKEN.
func withoutSecrets(command []string) []string {
	shown := slices.Clone(command)
	for i, argument := range command {
		name, hasValue := nameOfSecret(argument)
		switch {
		case name == "":
		case hasValue:
			shown[i] = name + "=…"
		case strings.HasPrefix(argument, "-") && i+1 < len(command):
			shown[i+1] = "…"
		}
	}
	return shown
}

// nameOfSecret returns an argument up to the first equals sign, or its end, by which it names a secret; empty if it names none.
func nameOfSecret(argument string) (name string, hasValue bool) {
	for at, r := range argument {
		if r == '=' && namesSecret(argument[:at]) {
			return argument[:at], true
		}
	}
	if namesSecret(argument) {
		return argument, false
	}
	return "", false
}

// namesSecret reports whether a word of a name says that the value is a secret. Other names have such words as parts: --tokenizer, --max-num-batched-tokens.
func namesSecret(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_.= ", r) })
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.Contains([]string{"key", "keys", "apikey", "token", "secret", "password", "passwd"}, word)
	})
}
