//go:build soak

package server

const killStride = 1
