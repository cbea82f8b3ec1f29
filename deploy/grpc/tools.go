//go:build tools

// Package tools names the load client and the conformance tests, so that go.sum holds what `make ghz` builds them from.
package tools

import (
	_ "github.com/bojand/ghz/cmd/ghz"
	_ "github.com/summerwind/h2spec/cmd/h2spec"
)
