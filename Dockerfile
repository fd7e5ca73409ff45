# A small image that runs as nobody in particular: docker build -t understudy . && docker compose up
FROM python:3.12-slim AS build
COPY . /src
RUN python -m venv /opt/understudy \
 && /opt/understudy/bin/pip install --no-cache-dir -c /src/constraints.txt torch --index-url https://download.pytorch.org/whl/cpu \
 && /opt/understudy/bin/pip install --no-cache-dir -c /src/constraints.txt "/src[studio,sql,excel]"

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 understudy && mkdir /data && chown understudy /data
COPY --from=build /opt/understudy /opt/understudy
ENV PATH=/opt/understudy/bin:$PATH PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
USER understudy
WORKDIR /data
VOLUME /data
ENTRYPOINT ["understudy"]
CMD ["--help"]
