//go:build tools

// Package tools names the conformance tests, so that go.sum holds what `make grpc-go` builds them from.
package tools

import (
	_ "github.com/summerwind/h2spec/cmd/h2spec"
)
