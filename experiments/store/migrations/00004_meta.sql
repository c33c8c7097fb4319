-- What is to be known of the store itself: its "id", for others to name it by.

-- +goose Up
CREATE TABLE meta (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
);
