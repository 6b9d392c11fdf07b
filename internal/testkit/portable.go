//go:build portable

package testkit

const portable = true
