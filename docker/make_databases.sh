#!/bin/sh
# Runs once, in an empty PostgreSQL: two databases, each with an owner who cannot enter the other.
set -eu

make_database() {
    psql --username "$POSTGRES_USER" --set ON_ERROR_STOP=1 --set name="$1" --set password="$2" <<'SQL'
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE CONNECT ON DATABASE :"name" FROM PUBLIC;
SQL
}

make_database airflow "$AIRFLOW_DATABASE_PASSWORD"
make_database hpo "$LEDGER_DATABASE_PASSWORD"
