//go:build tools

// Package tools names the load client, so that go.sum holds what `make ghz` builds it from.
package tools

import _ "github.com/bojand/ghz/cmd/ghz"
