//go:build soak

package tier

// soak says that this tier has all the time there is.
const soak = true
