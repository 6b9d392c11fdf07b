package main

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"regexp"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
)

// maxCommand is how many bytes of a command line are kept with a change.
const maxCommand = 300

// apiKeyText finds what looks like an API key, also within an argument.
var apiKeyText = regexp.MustCompile(`\b(cn_|sk-)[^\s,=]+`)

// authorOf returns who runs a command, for the history of changes.
func authorOf(cmd *cli.Command) etcd.Author {
	host, _ := os.Hostname()
	return etcd.Author{User: userName(), Host: host, Command: commandLine(cmd.Root().Args().Slice())}
}

// userName returns the name in COLONNADE_USER, which CI sets; else the one of the operating system, and behind sudo that of its caller.
func userName() string {
	name := cmp.Or(os.Getenv("COLONNADE_USER"), os.Getenv("SUDO_USER"))
	if name == "" {
		name = systemUser(user.Current, os.Getuid())
	}
	return command.Printable(name[:min(len(name), maxCommand)])
}

// systemUser returns the name that the operating system has for the user, else the number, else that of the program: a container may have no
// list of users, and a Windows no numbers.
func systemUser(current func() (*user.User, error), id int) string {
	u, err := current()
	switch {
	case err == nil && u.Username != "":
		return u.Username
	case id >= 0:
		return fmt.Sprintf("uid-%d", id)
	}
	return "colonnade"
}

// commandLine returns a command line without secrets, and not longer than maxCommand.
func commandLine(args []string) string {
	line := "colonnade"
	for _, arg := range args {
		line += " " + command.Printable(withoutSecrets(arg))
	}
	if len(line) > maxCommand {
		line = strings.ToValidUTF8(line[:maxCommand], "") + "…"
	}
	return line
}

// withoutSecrets returns an argument with … in place of API keys and of the passwords of URLs.
func withoutSecrets(arg string) string {
	parts := strings.Split(apiKeyText.ReplaceAllString(arg, "$1…"), ",")
	for i, part := range parts {
		flag, address, isFlag := strings.Cut(part, "=")
		if !isFlag || !strings.HasPrefix(flag, "-") {
			flag, address = "", part
		} else {
			flag += "="
		}
		u, err := url.Parse(address)
		if err != nil && strings.Contains(address, "@") {
			parts[i] = flag + "…"
		} else if err == nil && u.User != nil {
			u.User = url.User("…")
			parts[i] = flag + strings.ReplaceAll(u.String(), url.PathEscape("…"), "…")
		}
	}
	return strings.Join(parts, ",")
}
