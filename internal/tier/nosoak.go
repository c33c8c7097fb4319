//go:build !soak

package tier

const soak = false
