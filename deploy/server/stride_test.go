//go:build integration && !soak

package server

// killStride is the distance between the points at which a script is killed;
// soak takes every one.
const killStride = 4
